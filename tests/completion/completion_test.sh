#!/usr/bin/env bash
# Tests tools/completion/trireme.bash: completion_test.sh CASE COMPLETION_FILE PROGRAM
# All cases use the real program.
set -uo pipefail
case_name=$1
program=$3
# shellcheck source=tools/completion/trireme.bash
source "$2"

# complete_line WORD…: what bash would offer for the last word, sorted, on one line.
complete_line() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _trireme "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' '
}

# expect OFFERS WORD…
expect() {
  local wanted=$1 offered
  shift
  offered=$(complete_line "$@")
  if [[ $offered != "$wanted" ]]; then
    echo "completing '$*': offered '$offered', wanted '$wanted'" >&2
    exit 1
  fi
}

case $case_name in
  OffersSubcommands)
    expect "schedule" "$program" "sch"
    expect "tokenize tour" "$program" --version "to"
    ;;
  OffersOptions)
    expect "--help --version" "$program" "--"
    expect "--size --sizes" "$program" schedule allreduce --json "--siz"
    expect "--backward-input --backward-weight" "$program" pipeline "--back"
    ;;
  OffersValues)
    expect "allgather allreduce alltoall" "$program" schedule "all"
    expect "allreduce" "$program" schedule --json "allr"
    expect "binary-tree bruck" "$program" schedule allreduce --algorithm "b"
    expect "recursive-doubling recursive-halving" "$program" schedule -a "re"
    expect "zb-h1 zb-v" "$program" pipeline --schedule "zb"
    expect "bf16" "$program" train --dtype "b"
    expect "gpt-mini gpt-nano" "$program" train --model "gpt-"
    expect "full" "$program" plan show --recompute "f"
    expect "coordinator" "$program" ps serve --role "c"
    expect "dgx-h100 dgx-h200" "$program" plan --cluster "dgx-h"
    expect "this" "$program" simulate -c "th"
    expect "laptop" "$program" cluster "lap"
    expect "llama3-405b llama3-70b llama3-8b" "$program" plan --model "llama3"
    expect "train" "$program" help "tra"
    expect "show" "$program" help plan "s"
    COLUMNS=50 expect "ring" "$program" train --context "r"
    ;;
  OffersNothingUnknown)
    expect "" "$program" schedule allreduce --ranks ""
    expect "" "$program" "x"
    expect "" "./no-such-program" ""
    ;;
  CompletesForProgram)
    # "$program" prints its subcommands; completion must offer each, and its --help option.
    subcommands=$(COLUMNS=200 "$program" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z-]*\) .*/\1/p' | sort)
    [[ -n $subcommands ]] || exit 1
    expect "$(paste -sd ' ' <<<"$subcommands")" "$program" ""
    for subcommand in $subcommands; do
      expect "--help" "$program" "$subcommand" "--hel"
    done
    ;;
  *)
    echo "no case $case_name" >&2
    exit 2
    ;;
esac
