#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 908ccabc7d143a81
# DPO of a 7B model after supervised fine-tuning on UltraFeedback, as for Zephyr-7B
#
#   bash cluster_scripts/dpo_7b/launch/deepspeed.sh RUN          all stages, on this machine
#   bash cluster_scripts/dpo_7b/launch/deepspeed.sh RUN STAGE    one node's processes of one stage
#
# The same as torchrun.sh with DeepSpeed's own launcher. Over several nodes it is started on each
# (by srun, as slurm.sbatch does with NBKIT_LAUNCHER=deepspeed.sh); it then uses no ssh.
# By itself Slurm starts torchrun.sh, which shards with DeepSpeed all the same. This launcher kills
# what has not ended 30 s after a SIGTERM that reaches it (the cluster takes the nodes back, scancel,
# a second Ctrl-C), and has no setting for that: take torchrun.sh if a checkpoint takes longer.
# shellcheck disable=SC2016 # values stay literal
set -euo pipefail

job_name=dpo_7b
stages=('')
lead_seconds=300 # from the request to save to the end of the time
budget_seconds=36000 # for all attempts together; 0: no limit
facts='{"job": "dpo_7b", "variant": "", "stages": [""], "gpus": 8, "price_per_gpu_hour": 2.5, "currency": "USD"}'
preflight=1 # whether each GPU is tried before the first step
nodes=1
program=cluster_scripts/dpo_7b/train.py

export PYTHONUNBUFFERED=1
# How long torchrun lets its processes save when it has passed a signal on; 30 s without this, and
# always 30 s in a PyTorch older than its pull request 172596.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export NBKIT_TRACKERS=tensorboard

# One node's processes of a stage.
launch() {
  deepspeed_rendezvous
  exec .venv/bin/python -m deepspeed.launcher.runner \
    --num_gpus=8 \
    --master_addr="$address" \
    --master_port="$port" \
    --no_local_rank \
    "$program" cluster_scripts/dpo_7b/launch/config"${1:+.$1}".yaml
}

# shellcheck source=nbkit/cluster/driver/node.sh
source "$(dirname -- "${BASH_SOURCE[0]}")"/../../../nbkit/cluster/driver/node.sh
drive_node "$@"
