#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 3311153272fedb28
# Supervised fine-tuning of a 7B model on the chosen answers of HH-RLHF.
#
#   bash cluster_scripts/sft_7b/launch/torchrun.sh RUN          all stages, on this machine
#   bash cluster_scripts/sft_7b/launch/torchrun.sh RUN STAGE    one node's processes of one stage (slurm.sbatch)
#
# RUN is the run folder. A run that was stopped goes on from its newest checkpoint.
# Exit status: 0 finished, 75 stopped and resumable, others failed.
# shellcheck disable=SC2016 # values stay literal
set -euo pipefail

job_name=sft_7b
stages=('')
lead_seconds=300 # from the request to save to the end of the time
budget_seconds=36000 # for all attempts together; 0: no limit
facts='{"job": "sft_7b", "variant": "", "stages": [""], "gpus": 8, "price_per_gpu_hour": 2.5, "currency": "USD"}'
preflight=1 # whether each GPU is tried before the first step
nodes=1
program=cluster_scripts/sft_7b/train.py

export PYTHONUNBUFFERED=1
# How long torchrun lets its processes save when it has passed a signal on; 30 s without this, and
# always 30 s in a PyTorch older than its pull request 172596.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300
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
    "$program" cluster_scripts/sft_7b/launch/config"${1:+.$1}".yaml
}

# shellcheck source=nbkit/cluster/driver/node.sh
source "$(dirname -- "${BASH_SOURCE[0]}")"/../../../nbkit/cluster/driver/node.sh
drive_node "$@"
