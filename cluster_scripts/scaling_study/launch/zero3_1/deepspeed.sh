#!/usr/bin/env bash
# Generated from job.yaml by `nbkit job render`, which writes it anew: edit that. sha256 bad3ea15533bd1eb
# Policy updates of GRPO and PPO, weak and strong scaling, 7B under ZeRO-3 on 1 GPU.
#
#   bash cluster_scripts/scaling_study/launch/zero3_1/deepspeed.sh RUN          all stages, on this machine
#   bash cluster_scripts/scaling_study/launch/zero3_1/deepspeed.sh RUN STAGE    one node's processes of one stage
#
# The same as torchrun.sh with DeepSpeed's own launcher. Over several nodes it is started on each
# (by srun, as slurm.sbatch does with NBKIT_LAUNCHER=deepspeed.sh); it then uses no ssh.
# By itself Slurm starts torchrun.sh, which shards with DeepSpeed all the same. This launcher kills
# what has not ended 30 s after a SIGTERM that reaches it (the cluster takes the nodes back, scancel,
# a second Ctrl-C), and has no setting for that: take torchrun.sh if a checkpoint takes longer.
# shellcheck disable=SC2016,SC2317,SC2329 # values stay literal; traps call functions
set -euo pipefail
if (($# < 1)); then
  echo "usage: deepspeed.sh RUN [STAGE]" >&2
  exit 2
fi
mkdir -p -- "$1/attempts" "$1/logs"
run=$(cd -- "$1" && pwd)
export NBKIT_RUN_FOLDER=$run
port_is_used() {
  local hex file
  printf -v hex ':%04X' "$1"
  # Column 2 is the local address, column 4 the state; 06 has ended and only waits.
  for file in /proc/net/tcp /proc/net/tcp6; do
    if [[ -r $file ]] && awk -v hex="$hex" \
      'substr($2, length($2) - 4) == hex && $4 != "06" { used = 1 } END { exit !used }' "$file"; then
      return 0
    fi
  done
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# choose_port NUMBER [FIRST LAST]: FIRST and LAST are the bounds of the system's own range.
choose_port() {
  local low=10000 high=32767 first=${2:-} last=${3:-} size try port
  if [[ -z $first ]]; then
    read -r first last </proc/sys/net/ipv4/ip_local_port_range || { first=32768 last=60999; }
  fi
  if ((first <= high && first - low > 1000)); then
    high=$((first - 1))
  elif ((first <= high && last < 64500)); then
    low=$((last + 1)) high=65535
    if ((low < 10000)); then low=10000; fi
  elif ((first <= high)); then
    echo "no room outside the system's port range $first-$last; a port of it is taken" >&2
  fi
  size=$((high - low + 1))
  for ((try = 0; try < 100; try++)); do
    port=$((low + ($1 + try * 7919) % size))
    if ! port_is_used "$port"; then
      printf '%s\n' "$port"
      return
    fi
  done
  echo "no free port among 100 between $low and $high" >&2
  return 1
}

launch_node() {
  local config=cluster_scripts/scaling_study/launch/zero3_1/config${1:+.$1}.yaml address=127.0.0.1 port
  if [[ -n ${SLURM_JOB_ID:-} ]]; then
    address=$MASTER_ADDR port=$MASTER_PORT
  else
    port=$(choose_port "$$")
  fi
  local python=(.venv/bin/python)
  trap '' USR1
  exec "${python[@]}" -m deepspeed.launcher.runner \
    --num_gpus=1 \
    --master_addr="$address" \
    --master_port="$port" \
    --no_local_rank \
    cluster_scripts/scaling_study/train.py "$config"
}

export PYTHONUNBUFFERED=1
# How long torchrun lets its processes save when it has passed a signal on; 30 s without this, and
# always 30 s in a PyTorch older than its pull request 172596.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=60
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export NBKIT_TRACKERS=tensorboard

if (($# > 1)); then
  launch_node "$2"
fi
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"/../../../..
launch() { launch_node "$1"; }

stages=(grpo)
lead_seconds=60
budget_seconds=36000 # for all attempts together; 0: no limit
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
      echo "$(date -u +%FT%TZ) scaling_study${stage:+, stage $stage}: starts"
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
  echo "scaling_study: $run/STOP was there, so nothing is started; it is taken away, and the next start goes on"
  rm -f -- "$run/STOP"
  exit 75
fi
rm -f -- "$run/STOP" # of an attempt that was killed before it could take it away
printf '%s\n' '{"job": "scaling_study", "variant": "zero3_1", "stages": ["grpo"], "gpus": 1, "price_per_gpu_hour": 2.5, "currency": "USD"}' >"$run/.job.json-$$"
mv -- "$run/.job.json-$$" "$run/job.json" # never half a file
spent=$(seconds_spent)
printf -v started '%(%s)T' -1
attempt=$run/attempts/$started-$$
if ((budget_seconds > 0 && spent + lead_seconds >= budget_seconds)); then
  echo "scaling_study: limits allow $budget_seconds s for all attempts and $spent s are spent; raise them in job.yaml to go on" >&2
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
