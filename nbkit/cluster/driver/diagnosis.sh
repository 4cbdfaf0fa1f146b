# shellcheck shell=bash disable=SC2154
# What is set so that a run can be looked into when it hung or died; a value that is set is kept.

export_diagnosis() {
  export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
  export PYTHONFAULTHANDLER=${PYTHONFAULTHANDLER:-1} # a crash of C code shows the lines of Python
  # The flight recorder: each rank's last operations, written to a file when one is not answered in
  # time.
  local records=$run/logs/flight_recorder
  mkdir -p -- "$records"
  export TORCH_FR_BUFFER_SIZE=${TORCH_FR_BUFFER_SIZE:-2000}
  export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
  export TORCH_FR_DUMP_TEMP_FILE=${TORCH_FR_DUMP_TEMP_FILE:-$records/rank_}
}

# One setting of torch's allocator for all jobs: activations of many sizes share one pool. Its name
# has changed too.
export_allocator() {
  export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}
  export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-$PYTORCH_ALLOC_CONF}
}

# Where torchrun writes what each of its processes prints: sets rank_logs.
name_rank_logs() {
  printf -v rank_logs '%s/logs/ranks%s/%(%Y%m%dT%H%M%S)T-%s' \
    "$run" "${1:+/$1}" -1 "${SLURMD_NODENAME:-$BASHPID}"
  mkdir -p -- "$rank_logs"
}
