# shellcheck shell=bash
# What slurm.sbatch does around its one command, the function launch STAGE: it hands the nodes an
# address and a port, runs the stages, and requeues the job when its time is up.
max_requeues=${max_requeues:?}     # of the job's own; the launch script has set it
hostfile_slots=${hostfile_slots:-} # processes a node, for DeepSpeed's hostfile over several nodes
# shellcheck source=nbkit/cluster/driver/ports.sh
source "${BASH_SOURCE[0]%/*}/ports.sh"
# shellcheck source=nbkit/cluster/driver/stages.sh
source "${BASH_SOURCE[0]%/*}/stages.sh"
# shellcheck source=nbkit/cluster/driver/retries.sh
source "${BASH_SOURCE[0]%/*}/retries.sh"

start_stage() { launch "$1" 2> >(keep_srun_errors >&2); }

# How often this job has asked for its own requeue; a job submitted anew begins at 0.
own_requeues() {
  local job='' count=''
  if [[ -e $run/requeues ]]; then read -r job count <"$run/requeues" || true; fi
  if [[ $job != "$SLURM_JOB_ID" || ! $count =~ ^[0-9]{1,4}$ ]]; then count=0; fi
  printf '%s\n' "$count"
}

# Counted first: once it is asked for, this script may be killed.
ask_for_requeue() {
  printf '%s %s\n' "$SLURM_JOB_ID" "$(($(own_requeues) + 1))" >"$run/.requeues"
  mv -- "$run/.requeues" "$run/requeues"
  scontrol requeue "$SLURM_JOB_ID"
}

# The first node is where all meet.
name_the_meeting_point() {
  local hosts
  hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
  MASTER_ADDR=${hosts%%$'\n'*}
  MASTER_PORT=$(choose_port "$SLURM_JOB_ID")
  NBKIT_PREFLIGHT_PORT=$(choose_port "$((SLURM_JOB_ID + 11383))") # of another half of the range
  export MASTER_ADDR MASTER_PORT NBKIT_PREFLIGHT_PORT
  if [[ -n $hostfile_slots ]]; then
    printf '%s\n' "$hosts" | sed "s/\$/ slots=$hostfile_slots/" >"$run/hostfile"
  fi
}

# Only the signal of the time is answered by a requeue. TERM: the cluster takes the nodes back and
# requeues the job itself if it preempted it.
requeue_if_allowed() {
  if [[ $stop_reason != USR1 ]]; then
    echo "$job_name: stopped ($stop_reason); it is resumable"
  elif (($(own_requeues) >= max_requeues)); then
    echo "$job_name: limits.requeues ($max_requeues) is reached; submit it again to go on" >&2
  else
    note_time
    if budget_is_spent "$(seconds_spent)"; then
      echo "$job_name: the limit of $budget_seconds s for all attempts is reached" >&2
    else
      echo "$job_name: its time is up; requeued"
      ask_for_requeue
    fi
  fi
}

# drive_slurm_job RUN
drive_slurm_job() {
  if (($# != 1)); then
    echo "usage: sbatch slurm.sbatch RUN" >&2
    exit 2
  fi
  open_run "$1"
  begin_attempt
  name_the_meeting_point
  # The cluster's requeues count here among the job's own.
  echo "$(date -u +%FT%TZ) $job_name: job $SLURM_JOB_ID, attempt $((${SLURM_RESTART_COUNT:-0} + 1)), rendezvous at $MASTER_ADDR:$MASTER_PORT"
  run_stages
  if [[ $outcome == stopped ]]; then requeue_if_allowed; fi
  if [[ $outcome == failed ]]; then retry_if_allowed; fi
  end_attempt
}
