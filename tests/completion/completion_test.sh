#!/usr/bin/env bash
# Tests tools/completion/trireme.bash: completion_test.sh CASE COMPLETION_FILE PROGRAM
# Most cases complete for a stand-in whose help text is written here; one does so for the real program.
set -uo pipefail
case_name=$1
program=$3
# shellcheck source=tools/completion/trireme.bash
source "$2"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/trireme" <<'STAND_IN'
#!/usr/bin/env bash
if [[ $1 == paint ]]; then
  cat <<'HELP'
Paints
Usage: trireme paint [OPTIONS] what

Positionals:
  what TEXT:{wall,window} REQUIRED
                              what to paint

Options:
  -h,--help                   Print this help message and exit
  --json                      As JSON
  -c,--color TEXT:{red,blue}  The color
Cost model:
  --coats INT                 How many

Examples:
  trireme paint wall --color red
HELP
else
  cat <<'HELP'
Usage: trireme [OPTIONS] SUBCOMMAND

Options:
  -h,--help                   Print this help message and exit
  --version                   Version

Subcommands:
  paint                       Paints
  plan                        Plans
HELP
fi
STAND_IN
chmod +x "$folder/trireme"

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

stand_in=$folder/trireme
case $case_name in
  OffersSubcommands)
    expect "paint plan" "$stand_in" ""
    expect "plan" "$stand_in" "pl"
    expect "paint" "$stand_in" --version "pai"
    ;;
  OffersOptions)
    expect "--help --version" "$stand_in" "--"
    expect "--coats --color --help --json" "$stand_in" paint "-"
    expect "--coats --color" "$stand_in" paint wall --json "--co"
    ;;
  OffersValues)
    expect "wall window" "$stand_in" paint ""
    expect "window" "$stand_in" paint --json "wi"
    expect "blue red" "$stand_in" paint --color ""
    expect "blue" "$stand_in" paint -c "b"
    ;;
  OffersNothingItDoesNotKnow)
    expect "" "$stand_in" paint --coats ""
    expect "" "$stand_in" "x"
    expect "" "$folder/no-such-program" ""
    ;;
  KnowsTheProgram)
    # "$program" prints its subcommands; each must be offered, and its --help option too.
    subcommands=$("$program" --help | sed -n '/^Subcommands:$/,/^$/s/^  \([a-z-]*\) .*/\1/p' | sort)
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
