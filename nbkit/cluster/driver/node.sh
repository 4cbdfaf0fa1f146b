# shellcheck shell=bash
# What torchrun.sh and deepspeed.sh do around their one command, the function launch STAGE: all
# stages on this machine, or, started by srun on each node, one node's processes of one stage.
nodes=${nodes:?} # of the job; the launch script has set it
program=${program:?} # what is launched; the preflight takes its place for a moment
# shellcheck source=nbkit/cluster/driver/diagnosis.sh
source "${BASH_SOURCE[0]%/*}/diagnosis.sh"
# shellcheck source=nbkit/cluster/driver/ports.sh
source "${BASH_SOURCE[0]%/*}/ports.sh"
# shellcheck source=nbkit/cluster/driver/stages.sh
source "${BASH_SOURCE[0]%/*}/stages.sh"

# SIGUSR1 would end the launcher, which does not know it; the training script's own handler stands
# above this. NBKIT_PREFLIGHT is 1 for the first stage of an attempt.
start_stage() {
  trap '' USR1
  if [[ ${NBKIT_PREFLIGHT:-0} == 1 ]]; then (try_gpus "$1") || exit; fi
  launch "$1"
}

# The same launcher with another program; over several nodes on another port, since the first
# launcher of a node may still be closing when the second of another one asks for it.
try_gpus() {
  program=bookkit/jobs/preflight.py purpose=preflight
  if [[ -n ${SLURM_JOB_ID:-} ]]; then MASTER_PORT=${NBKIT_PREFLIGHT_PORT:?}; fi
  launch "$1"
}

# Where torchrun's processes of a stage meet: sets endpoint, address, is_host, rendezvous_id
# and rank_logs.
# Port 0: torchrun takes a free one. Over several nodes all must know it beforehand.
# The node's address is the name that Slurm knows it by, as in MASTER_ADDR: a host with several
# networks may have another name of its own.
# shellcheck disable=SC2034 # launch uses them
torchrun_rendezvous() {
  endpoint=127.0.0.1:0 address=127.0.0.1 is_host=0
  [[ ${SLURM_NODEID:-0} != 0 ]] || is_host=1
  if [[ -n ${SLURM_JOB_ID:-} ]]; then
    endpoint=$MASTER_ADDR:$MASTER_PORT address=${SLURMD_NODENAME:-$MASTER_ADDR}
  fi
  rendezvous_id=${SLURM_JOB_ID:-local}-${SLURM_RESTART_COUNT:-0}${1:+-$1}${purpose:+-$purpose}
  name_rank_logs "${purpose:-$1}"
}

# Where DeepSpeed's processes meet: sets address and port.
# shellcheck disable=SC2034 # launch uses them
deepspeed_rendezvous() {
  if [[ -n ${SLURM_JOB_ID:-} ]]; then
    address=$MASTER_ADDR port=$MASTER_PORT
  else
    address=127.0.0.1 port=$(choose_port "$$")
  fi
}

# drive_node RUN [STAGE]
drive_node() {
  if (($# < 1)); then
    echo "usage: ${0##*/} RUN [STAGE]" >&2
    exit 2
  fi
  open_run "$1"
  export_diagnosis
  export_allocator
  if (($# > 1)); then
    start_stage "$2"
  fi
  cd -P -- "${BASH_SOURCE[0]%/*}/../../.." || exit # the root of the repository
  if ((nodes > 1)); then
    echo "$job_name is a job of $nodes nodes: submit slurm.sbatch for $run" >&2
    exit 2
  fi
  begin_attempt
  run_stages
  end_attempt
}
