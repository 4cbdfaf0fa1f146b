# shellcheck shell=bash disable=SC2154
# A job that crashed at night is started again, so often as limits.retries says, without the node
# that failed. slurm.sh uses this. A job that waits in the queue can be told to leave a node out, and
# one that is requeued is not waiting yet: so it is another job, which starts when this one has ended.
max_retries=${max_retries:?}   # the launch script has set it
batch_script=${batch_script:?} # the launch script itself, which Slurm runs from a copy
excluded=${excluded:-}         # nodes that job.yaml leaves out

# Passes on what srun and the processes say, and keeps srun's own errors: the first names the node
# that failed, since the others end because it did.
keep_srun_errors() {
  local line
  while IFS= read -r line || [[ -n $line ]]; do
    printf '%s\n' "$line"
    if [[ $line == 'srun: error: '* ]]; then printf '%s\n' "$line" >>"$run/srun_errors"; fi
  done
}

# The nodes that failed: those that the preflight names; or one of which srun says so; or the one
# that it names first. Of a node that vanishes srun hears later than of those that miss it.
failed_nodes() {
  local hosts line name first='' try
  if [[ -s $run/bad_nodes ]]; then
    cat -- "$run/bad_nodes"
    return
  fi
  hosts=$'\n'$(scontrol show hostnames "$SLURM_JOB_NODELIST")$'\n'
  for ((try = 0; try < 10; try++)); do
    if [[ -e $run/srun_errors ]]; then break; fi
    sleep 0.2 # the reader of srun's errors may be a moment behind
  done
  [[ -e $run/srun_errors ]] || return 0
  while read -r line; do
    name=${line#srun: error: }
    if [[ $name == 'Node failure on '* ]]; then first=''; fi
    name=${name#Node failure on }
    name=${name%%:*}
    if [[ -z $first && $hosts == *$'\n'"$name"$'\n'* ]]; then first=$name; fi
  done <"$run/srun_errors"
  if [[ -n $first ]]; then printf '%s\n' "$first"; fi
}

# How far the run is: rows of metrics, of all stages.
rows_done() {
  local stage sum=0 rows file
  for stage in "${stages[@]}"; do
    file=$run${stage:+/$stage}/metrics.jsonl
    [[ -e $file ]] || continue
    rows=$(wc -l <"$file")
    ((sum += rows)) || true
  done
  printf '%s\n' "$sum"
}

# Sets retries, retry_rows and retry_excluded: of the chain of jobs in which this one is. RUN/retries
# holds the number of the job that was submitted last, and these.
read_retries() {
  local job=''
  retries=0 retry_rows=0 retry_excluded=''
  if [[ -e $run/retries ]]; then read -r job retries retry_rows retry_excluded <"$run/retries" || true; fi
  if [[ $job != "$SLURM_JOB_ID" || ! $retries =~ ^[0-9]{1,4}$ || ! $retry_rows =~ ^[0-9]{1,12}$ ]]; then
    retries=0 retry_rows=0 retry_excluded=''
  fi
}

# After a crash. One that comes again at the same step, or before the first, is the program's.
retry_if_allowed() {
  local retries retry_rows retry_excluded bad rows number
  read_retries
  rows=$(rows_done)
  bad=$(failed_nodes | paste -sd, -)
  note_time
  if [[ ! -s $run/bad_nodes ]] && ((rows <= retry_rows)); then
    echo "$job_name: it failed and has come no further than before ($rows steps); not started again" >&2
  elif ((retries >= max_retries)); then
    echo "$job_name: it failed; limits.retries ($max_retries) is reached; submit it again to go on" >&2
  elif budget_is_spent "$(seconds_spent)"; then
    echo "$job_name: it failed; the limit of $budget_seconds s for all attempts is reached" >&2
  else
    bad=$(printf '%s\n' "$excluded" "$retry_excluded" "$bad" | sed '/^$/d' | paste -sd, -)
    number=$(sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" ${bad:+"--exclude=$bad"} \
      --chdir="$PWD" --output="$run/logs/slurm-%j.out" "$batch_script" "$run") || {
      echo "$job_name: it failed and could not be submitted from here; submit it again to go on" >&2
      return 0
    }
    printf '%s %s %s %s\n' "${number%%;*}" "$((retries + 1))" "$rows" "$bad" >"$run/.retries"
    mv -- "$run/.retries" "$run/retries"
    echo "$job_name: it failed; job ${number%%;*} goes on${bad:+ without $bad}"
  fi
}
