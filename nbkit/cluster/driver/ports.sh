# shellcheck shell=bash
# A port that follows from the job's number: outside the range from which the system gives out
# ports of its own, so nobody gets it by chance; and checked to be free. Chosen once, on the first
# node, and handed to the others.

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
