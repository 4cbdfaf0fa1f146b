#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 32463417fb51263d
# Policy updates of GRPO and PPO, weak and strong scaling, 7B under FSDP2 on 8 GPUs.
#
#   bash cluster_scripts/scaling_study/launch/torchrun.sh RUN          all stages, on this machine
#   bash cluster_scripts/scaling_study/launch/torchrun.sh RUN STAGE    one node's processes of one stage (slurm.sbatch)
#
# RUN is the run folder. A run that was stopped goes on from its newest checkpoint.
# Exit status: 0 finished, 75 stopped and resumable, others failed.
# shellcheck disable=SC2016 # values stay literal
set -euo pipefail

job_name=scaling_study
stages=(grpo ppo)
lead_seconds=60 # from the request to save to the end of the time
budget_seconds=4500 # for all attempts together; 0: no limit
facts='{"job": "scaling_study", "variant": "", "stages": ["grpo", "ppo"], "gpus": 8, "price_per_gpu_hour": 2.5, "currency": "USD"}'
preflight=1 # whether each GPU is tried before the first step
nodes=1
program=cluster_scripts/scaling_study/train.py

export PYTHONUNBUFFERED=1
# How long torchrun lets its processes save when it has passed a signal on; 30 s without this, and
# always 30 s in a PyTorch older than its pull request 172596.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=60
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export NBKIT_TRACKERS=tensorboard

# One node's processes of a stage.
launch() {
  torchrun_rendezvous "$1"
  exec .venv/bin/python -m torch.distributed.run \
    --nnodes=1 \
    --nproc-per-node=8 \
    --rdzv-backend=c10d \
    --rdzv-id="$rendezvous_id" \
    --rdzv-endpoint="$endpoint" \
    --local-addr="$address" \
    --rdzv-conf="is_host=$is_host,join_timeout=900" \
    --log-dir="$rank_logs" --tee=3 \
    "$program" cluster_scripts/scaling_study/launch/config"${1:+.$1}".yaml
}

# shellcheck source=nbkit/cluster/driver/node.sh
source "$(dirname -- "${BASH_SOURCE[0]}")"/../../../nbkit/cluster/driver/node.sh
drive_node "$@"
