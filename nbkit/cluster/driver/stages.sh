# shellcheck shell=bash
# One attempt at a run: stages in order, signals, and the clock of all attempts.
#
# node.sh and slurm.sh use this. It is bash and not Python because Slurm signals the batch script's
# own shell, which must have its traps before anything slow begins, such as a Python that is loaded
# over a network; and because with a container the machine around it has no Python of the job.
# The launch script has set these before; the function start_stage STAGE becomes a stage's process.
job_name=${job_name:?}             # the name of the job's folder
stages=("${stages[@]?}")           # in order; ('') if there are none
lead_seconds=${lead_seconds:?}     # from the request to save to the end of the time
budget_seconds=${budget_seconds:?} # for all attempts together; 0: no limit
facts=${facts:?}                   # JSON that RUN/job.json keeps
preflight=${preflight:?}           # 1: each GPU is tried before the first step
child='' stop_reason='' interrupted=0 outcome=failed status=0

# open_run RUN: makes the run folder; its full name is in run.
open_run() {
  mkdir -p -- "$1/attempts" "$1/logs"
  run=$(cd -- "$1" && pwd)
  export NBKIT_RUN_FOLDER=$run
}

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
    if ((last > first)); then ((sum += last - first)); fi
  done
  printf '%s\n' "$sum"
}

# Seconds since the machine was started, so that a step of its clock changes no budget: sets uptime.
read_uptime() {
  printf -v uptime '%(%s)T' -1
  if [[ -r ${NBKIT_UPTIME:-/proc/uptime} ]]; then read -r uptime _ <"${NBKIT_UPTIME:-/proc/uptime}"; fi
  uptime=${uptime%.*}
}

# No program such as date is asked: the end of a job kills it, and a note without its second time
# would be left.
note_time() {
  local new=$run/attempts/.new-$BASHPID uptime
  read_uptime
  printf '%s %s\n' "$started" "$((started + uptime - started_up))" >"$new" && mv -- "$new" "$attempt"
}

keep_time() {
  local uptime
  trap - USR1 USR2 TERM INT EXIT
  while sleep "${NBKIT_CLOCK_SECONDS:-10}"; do
    kill -0 "$$" 2>/dev/null || return # killed outright: its clock stops with it
    note_time
    read_uptime
    if ((budget_seconds > 0 && spent + uptime - started_up >= budget_seconds - lead_seconds)); then
      kill -s USR2 "$$"
      return
    fi
  done
}

# Whether no time is left for a further attempt and its checkpoint.
budget_is_spent() { ((budget_seconds > 0 && $1 + lead_seconds >= budget_seconds)); }

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
      echo "$(date -u +%FT%TZ) $job_name${stage:+, stage $stage}: starts"
      set -m # in a process group of its own, so that a Ctrl-C comes here only
      start_stage "$stage" &
      child=$!
      set +m
      export NBKIT_PREFLIGHT=0 # once an attempt
      status=0
      wait_for "$child" || status=$?
      child=''
      if ended_well "$folder"; then continue; fi
    fi
    if [[ -e $run/STOP ]]; then
      outcome=stopped
      if stop_is_a_person_s; then stop_reason='a STOP file'; fi
      rm -f -- "$run/STOP" # it has been obeyed
    elif ((status == 0 || status == 75)) && [[ $(state_of "$folder") == preempted ]]; then
      outcome=stopped stop_reason='its own limit' # as limits.silent_steps; nobody else asked
    else
      outcome=failed
    fi
    return
  done
  outcome=finished
}

# When the clocks of attempts last wrote: a note holds whole seconds, and a tick may be shorter.
notes_of_attempts() { find "$run/attempts" -type f ! -name '.*' -printf '%f %T@\n' 2>/dev/null | sort; }

# Whether another attempt is alive: its clock goes on. Only asked where some attempt's was noted in
# the last minute, since the answer takes two and a half ticks.
another_is_alive() {
  local before
  [[ -n $(find "$run/attempts" -type f -mmin -1 -print -quit 2>/dev/null) ]] || return 1
  before=$(notes_of_attempts)
  sleep "$(awk -v tick="${NBKIT_CLOCK_SECONDS:-10}" 'BEGIN { print 2.5 * tick }')"
  [[ $(notes_of_attempts) != "$before" ]]
}

# Takes over the signals, notes what the run is, and starts the clock.
begin_attempt() {
  trap 'ask_to_stop USR1' USR1
  trap 'ask_to_stop TERM' TERM
  trap 'ask_to_stop INT' INT
  trap 'ask_to_stop budget' USR2
  if stop_is_a_person_s; then
    echo "$job_name: $run/STOP was there, so nothing is started; it is taken away, and the next start goes on"
    rm -f -- "$run/STOP"
    exit 75
  fi
  if another_is_alive; then
    echo "$job_name: another job writes to $run; wait for it, or give the run another folder" >&2
    exit 2
  fi
  rm -f -- "$run/STOP" # of an attempt that was killed before it could take it away
  printf '%s\n' "$facts" >"$run/.job.json-$$"
  mv -- "$run/.job.json-$$" "$run/job.json" # never half a file
  spent=$(seconds_spent)
  local uptime
  read_uptime
  started_up=$uptime
  printf -v started '%(%s)T' -1
  attempt=$run/attempts/$started-$$
  if budget_is_spent "$spent"; then
    echo "$job_name: limits allow $budget_seconds s for all attempts and $spent s are spent; raise them in job.yaml to go on" >&2
    exit 1
  fi
  rm -f -- "$run/bad_nodes" "$run/srun_errors"
  export NBKIT_PREFLIGHT=$preflight
  note_time
  keep_time >/dev/null 2>&1 &
  clock=$!
  trap 'kill "$clock" 2>/dev/null || true; note_time' EXIT
}

# Exit status: 0 finished, 75 stopped and resumable, others failed.
end_attempt() {
  case $outcome in
    finished) exit 0 ;;
    stopped) exit 75 ;;
  esac
  if ((status == 0)); then status=1; fi
  exit "$status"
}
