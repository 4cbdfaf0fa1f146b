#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 9bd3166f2fd145e0
# RLHF in three stages (SFT, reward model, PPO) for a 7B model on HH-RLHF.
#
#   bash cluster_scripts/rlhf_7b/launch/two_nodes/torchrun.sh RUN          all stages, on this machine
#   bash cluster_scripts/rlhf_7b/launch/two_nodes/torchrun.sh RUN STAGE    one node's processes of one stage (slurm.sbatch)
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
  local config=cluster_scripts/rlhf_7b/launch/two_nodes/config${1:+.$1}.yaml is_host=0
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
    --nnodes=2 \
    --nproc-per-node=8 \
    --rdzv-backend=c10d \
    --rdzv-id="${SLURM_JOB_ID:-local}-${SLURM_RESTART_COUNT:-0}${1:+-$1}" \
    --rdzv-endpoint="$endpoint" \
    --local-addr="$address" \
    --rdzv-conf="is_host=$is_host,join_timeout=900" \
    cluster_scripts/rlhf_7b/train.py "$config"
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
echo "rlhf_7b is a job of 2 nodes: submit slurm.sbatch for $run" >&2
exit 2
