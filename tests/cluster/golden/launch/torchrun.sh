#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 566e4ddeefcc639e
# Two stages over two nodes in a container, DeepSpeed's ZeRO-3 with offload.
#
#   bash tests/cluster/golden/launch/torchrun.sh RUN          all stages, on this machine
#   bash tests/cluster/golden/launch/torchrun.sh RUN STAGE    one node's processes of one stage (slurm.sbatch)
#
# RUN is the run folder. A run that was stopped goes on from its newest checkpoint.
# Exit status: 0 finished, 75 stopped and resumable, others failed.
# shellcheck disable=SC2016 # values stay literal
set -euo pipefail

job_name=golden
stages=(sft ppo)
lead_seconds=120 # from the request to save to the end of the time
budget_seconds=18000 # for all attempts together; 0: no limit
facts='{"job": "golden", "variant": "", "stages": ["sft", "ppo"], "gpus": 8, "price_per_gpu_hour": 2.5, "currency": "USD"}'
preflight=1 # whether each GPU is tried before the first step
nodes=2
program=tests/cluster/golden/train.py

module load cuda/12.8
export PYTHONUNBUFFERED=1
# How long torchrun lets its processes save when it has passed a signal on; 30 s without this, and
# always 30 s in a PyTorch older than its pull request 172596.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120
# The host takes the optimiser's step: every process on its share of the cores that it may use.
cores=$(nproc)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 4 ? cores / 4 : 1))}"
export NBKIT_TRACKERS=tensorboard,wandb
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
export HF_HOME='/scratch/it'"'"'s here'

# One node's processes of a stage.
launch() {
  torchrun_rendezvous "$1"
  exec apptainer exec --nv --bind "$PWD" --bind "$NBKIT_RUN_FOLDER" \
    --bind /data:/data \
    book.sif python3 -m torch.distributed.run \
    --nnodes=2 \
    --nproc-per-node=4 \
    --rdzv-backend=c10d \
    --rdzv-id="$rendezvous_id" \
    --rdzv-endpoint="$endpoint" \
    --local-addr="$address" \
    --rdzv-conf="is_host=$is_host,join_timeout=900" \
    --log-dir="$rank_logs" --tee=3 \
    "$program" tests/cluster/golden/launch/config"${1:+.$1}".yaml
}

# shellcheck source=nbkit/cluster/driver/node.sh
source "$(dirname -- "${BASH_SOURCE[0]}")"/../../../../nbkit/cluster/driver/node.sh
drive_node "$@"
