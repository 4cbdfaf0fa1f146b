#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 ddd2718ead1f4e4b
# Pushing a puck, from pixels.
#
#   bash cluster_scripts/ppo_manipulation/launch/push/torchrun.sh RUN          all stages, on this machine
#   bash cluster_scripts/ppo_manipulation/launch/push/torchrun.sh RUN STAGE    one node's processes of one stage (slurm.sbatch)
#
# RUN is the run folder. A run that was stopped goes on from its newest checkpoint.
# Exit status: 0 finished, 75 stopped and resumable, others failed.
# shellcheck disable=SC2016,SC2317,SC2329 # values stay literal; traps call functions
set -euo pipefail
if (($# < 1)); then
  echo "usage: torchrun.sh RUN [STAGE]" >&2
  exit 2
fi
mkdir -p -- "$1/attempts" "$1/logs"
run=$(cd -- "$1" && pwd)
export NBKIT_RUN_FOLDER=$run
# One node's processes. SIGUSR1 would end the launcher, which does not know it; the training
# script's own handler stands above this.
launch_node() {
  local config=cluster_scripts/ppo_manipulation/launch/push/config${1:+.$1}.yaml is_host=0
  local endpoint=127.0.0.1:0 address=127.0.0.1
  [[ ${SLURM_NODEID:-0} != 0 ]] || is_host=1
  # Port 0: torchrun takes a free one. Over several nodes all must know it beforehand.
  # The node's address is the name that Slurm knows it by, as in MASTER_ADDR: a host with several
  # networks may have another name of its own.
  if [[ -n ${SLURM_JOB_ID:-} ]]; then
    endpoint=$MASTER_ADDR:$MASTER_PORT address=${SLURMD_NODENAME:-$MASTER_ADDR}
  fi
  local python=(.venv/bin/python)
  trap '' USR1
  exec "${python[@]}" -m torch.distributed.run \
    --nnodes=1 \
    --nproc-per-node=1 \
    --rdzv-backend=c10d \
    --rdzv-id="${SLURM_JOB_ID:-local}-${SLURM_RESTART_COUNT:-0}${1:+-$1}" \
    --rdzv-endpoint="$endpoint" \
    --local-addr="$address" \
    --rdzv-conf="is_host=$is_host,join_timeout=900" \
    cluster_scripts/ppo_manipulation/train.py "$config"
}

export PYTHONUNBUFFERED=1
# How long torchrun lets its processes save when it has passed a signal on; 30 s without this, and
# always 30 s in a PyTorch older than its pull request 172596.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export NBKIT_TRACKERS=tensorboard

if (($# > 1)); then
  launch_node "$2"
fi
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"/../../../..
launch() { launch_node "$1"; }

stages=('')
lead_seconds=300
budget_seconds=14400 # for all attempts together; 0: no limit
child=''
stop_reason=''
interrupted=0

# A STOP of this script names its signal; any other is a person's (touch RUN/STOP).
stop_is_a_person_s() {
  local word=''
  [[ -e $run/STOP ]] || return 1
  read -r word <"$run/STOP" || true
  [[ ! $word =~ ^(USR1|TERM|INT|budget)$ ]]
}

# The first request waits for the step's end and its checkpoint; a second one does not.
ask_to_stop() {
  interrupted=1
  if [[ -n $stop_reason && $1 != budget && -n $child ]]; then
    kill -s TERM -- "$child" 2>/dev/null || true
  fi
  stop_reason=${stop_reason:-$1}
  [[ -e $run/STOP ]] || printf '%s\n' "$stop_reason" >"$run/STOP"
}
trap 'ask_to_stop USR1' USR1
trap 'ask_to_stop TERM' TERM
trap 'ask_to_stop INT' INT
trap 'ask_to_stop budget' USR2

# A trap ends bash's wait early; then it is taken up again.
wait_for() {
  local status
  while :; do
    interrupted=0 status=0
    wait "$1" || status=$?
    ((interrupted)) || return "$status"
  done
}

# An attempt is a file with two times, its start and the last moment at which it was alive.
seconds_spent() {
  local sum=0 file first last
  for file in "$run"/attempts/*; do
    [[ -e $file ]] || continue
    read -r first last <"$file" || continue
    [[ $first =~ ^[0-9]{1,12}$ && $last =~ ^[0-9]{1,12}$ ]] || continue
    ((sum += last - first)) || true
  done
  printf '%s\n' "$sum"
}

# The clock is bash's own: the end of a job kills a program such as date, and a note without its
# second time would be left.
note_time() {
  local new=$run/attempts/.new-$BASHPID
  printf '%s %(%s)T\n' "$started" -1 >"$new" && mv -- "$new" "$attempt"
}

keep_time() {
  local now
  trap - USR1 USR2 TERM INT EXIT
  while sleep "${NBKIT_CLOCK_SECONDS:-10}"; do
    kill -0 "$$" 2>/dev/null || return # killed outright: its clock stops with it
    note_time
    printf -v now '%(%s)T' -1
    if ((budget_seconds > 0 && spent + now - started >= budget_seconds - lead_seconds)); then
      kill -s USR2 "$$"
      return
    fi
  done
}

state_of() {
  local state=''
  if [[ -e $1/state ]]; then read -r state <"$1/state" || true; fi
  printf '%s\n' "$state"
}

# Whether a stage has finished. A network file system may show another node's writing late.
ended_well() {
  local try
  for ((try = 0; status == 0 && try < 30; try++)); do
    [[ $(state_of "$1") == running ]] || break
    sleep 2
  done
  [[ $(state_of "$1") == finished ]]
}

# Sets outcome to finished, stopped or failed, and status to the launcher's.
run_stages() {
  local stage folder
  status=0
  for stage in "${stages[@]}"; do
    folder=$run${stage:+/$stage}
    [[ $(state_of "$folder") != finished ]] || continue
    if [[ -z $stop_reason ]]; then
      echo "$(date -u +%FT%TZ) ppo_manipulation${stage:+, stage $stage}: starts"
      set -m # in a process group of its own, so that a Ctrl-C comes here only
      launch "$stage" &
      child=$!
      set +m
      status=0
      wait_for "$child" || status=$?
      child=''
      if ended_well "$folder"; then continue; fi
    fi
    if [[ -e $run/STOP ]]; then
      outcome=stopped
      if stop_is_a_person_s; then stop_reason='a STOP file'; fi
      rm -f -- "$run/STOP" # it has been obeyed
    else
      outcome=failed
    fi
    return
  done
  outcome=finished
}

if stop_is_a_person_s; then
  echo "ppo_manipulation: $run/STOP was there, so nothing is started; it is taken away, and the next start goes on"
  rm -f -- "$run/STOP"
  exit 75
fi
rm -f -- "$run/STOP" # of an attempt that was killed before it could take it away
printf '%s\n' '{"job": "ppo_manipulation", "variant": "push", "stages": [""], "gpus": 1, "price_per_gpu_hour": 2.5, "currency": "USD"}' >"$run/.job.json-$$"
mv -- "$run/.job.json-$$" "$run/job.json" # never half a file
spent=$(seconds_spent)
printf -v started '%(%s)T' -1
attempt=$run/attempts/$started-$$
if ((budget_seconds > 0 && spent + lead_seconds >= budget_seconds)); then
  echo "ppo_manipulation: limits allow $budget_seconds s for all attempts and $spent s are spent; raise them in job.yaml to go on" >&2
  exit 1
fi
note_time
keep_time >/dev/null 2>&1 &
clock=$!
trap 'kill "$clock" 2>/dev/null || true; note_time' EXIT
outcome=failed

run_stages
case $outcome in
  finished) exit 0 ;;
  stopped) exit 75 ;;
esac
if ((status == 0)); then status=1; fi
exit "$status"
