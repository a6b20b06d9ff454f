# Steps within a budget of time, sourced by test.sh. A list of steps is a function, called twice: first with planning=quiet (or =print), when each
# step only says how long it is expected to take, then with planning= to run.
#   step SECONDS NAME COMMAND...       runs COMMAND, records a failure with the end of its output, goes on
#   sampled SECONDS NAME COMMAND...    the same, with a command that takes its sample from $(shrunk N)
#   spare SECONDS NAME COMMAND...      the same, for what is run only where the rest of the list still fits, with its samples at their smallest
# SECONDS: on the two quiet cores of docs/notes/compile-time.md, with nothing cached. What steps took so far, against that, is the pace of the machine.
# Samples become smaller when what is left of the list would not fit into the budget at this pace. A step that still does not fit is left out.
# `results` is the folder of the records; `budget` the seconds from the start of the script, 0 for no limit.
: "${budget:=0}"
planning='' planned_fixed=0 planned_sampled=0 planned_spare=0 done_expected=0 done_spent=0 steps=0 failures=0 child=''
hang=900     # seconds after which a step hangs; three times what is expected of it, where that is longer
beyond=300   # seconds after the budget's end at which the last step is cut off
smallest=600 # percent: samples become no smaller than a sixth

pace() { # percent: how long steps take here, against what they are expected to
  local percent=100
  [ $done_expected -lt 60 ] || percent=$((100 * done_spent / done_expected))
  if [ $percent -lt 50 ]; then percent=50; fi
  echo $percent
}
shrinking() { # percent: how many times smaller the samples must be for the rest of the list to fit
  local pace room wanted
  pace=$(pace)
  room=$((budget - SECONDS - planned_fixed * pace / 100)) wanted=$((planned_sampled * pace / 100))
  if [ "$budget" = 0 ] || [ $wanted -le $room ]; then
    echo 100
  elif [ $((room * smallest)) -le $((wanted * 100)) ]; then
    echo $smallest
  else
    echo $((100 * wanted / room))
  fi
}
shrunk() { # shrunk N: every which one to take where there is time for every Nth
  echo $((($1 * $(shrinking) + 50) / 100))
}
shows_failure() { # shows_failure FILE: the output of a step that did not end has a test that failed
  grep -qE '^[.sxX]*[FE][.sxXFE]*( +\[ *[0-9]+%\])?$|\*\*\*Failed|FAILED' "$1"
}
leave_out() { # leave_out NAME WHY
  echo "    $1: LEFT OUT ($2)"
  echo "$1" >>"$results/left-out"
}

step() { run_step 100 "$@"; }
sampled() { run_step "$(shrinking)" "$@"; }
spare() { run_step 100 "$@"; }
run_step() { # run_step PERCENT SECONDS NAME COMMAND...: PERCENT is how many times smaller the sample is
  local percent=$1 seconds=$2 name=$3 start=$SECONDS code=0 kind=planned_fixed rest=0
  local output="$results/output-$((++steps))" expected=$((seconds * 100 / percent)) limit=0 cut=0 pace
  shift 3
  case ${FUNCNAME[1]} in sampled) kind=planned_sampled ;; spare) kind=planned_spare ;; esac
  if [ -n "$planning" ]; then
    printf -v $kind %d $((${!kind} + seconds))
    [ "$planning" = quiet ] || printf '%5d s  %s\n' "$seconds" "$name"
    return
  fi
  printf -v $kind %d $((${!kind} - seconds))
  pace=$(pace)
  if [ $kind = planned_spare ]; then rest=$((planned_fixed + planned_sampled * 100 / smallest + beyond / 2 * 100 / pace)); fi
  if [ "$budget" != 0 ]; then
    if [ $SECONDS -ge "$budget" ] || [ $((SECONDS + (expected + rest) * pace / 100)) -gt $((budget + beyond / 2)) ]; then
      leave_out "$name" "time: $((budget - SECONDS)) s left, $((expected * pace / 100)) s expected"
      return
    fi
    limit=$((budget + beyond - SECONDS))
    local hangs=$((expected * pace / 100 * 3))
    if [ $hangs -lt $hang ]; then hangs=$hang; fi
    if [ $limit -gt $hangs ]; then limit=$hangs; else cut=1; fi
  fi
  echo "==> $name$([ "$percent" = 100 ] || echo " (sample divided by $((percent / 100)).$((percent / 10 % 10)))")"
  # No pipeline: it would wait for processes that a step leaves behind. In the background, so that a signal ends the step.
  timeout -k 10 $limit bash -c '"$@"' step "$@" > >(exec tee "$output") 2>&1 & child=$!
  wait $child || code=$?
  child=''
  sleep 0.3 # for tee
  local spent=$((SECONDS - start))
  if [ $code = 0 ]; then
    rm "$output"
    echo "    $name: ok ($spent s)"
    done_expected=$((done_expected + expected)) done_spent=$((done_spent + spent))
  elif [ $cut = 1 ] && { [ $code = 124 ] || [ $code = 137 ]; } && [ $spent -lt $((expected * pace / 100 * 3 + 60)) ] && ! shows_failure "$output"; then
    rm "$output"
    leave_out "$name" "time: cut off after $spent s"
  else
    if [ $code = 124 ] || [ $code = 137 ]; then echo "no end after $spent s" >>"$output"; fi
    mv "$output" "$results/failed-$((++failures)).txt"
    echo "$name" >>"$results/failed-steps"
    echo "    $name: FAILED ($spent s)"
  fi
}
stop() { # for signals: ends the step that runs, with all its processes
  [ -z "$child" ] || kill "$child" 2>/dev/null
  exit 130
}
trap stop INT TERM
