#!/usr/bin/env bash
# Bash completion for trireme. All it offers is read from the program's own --help, so a new subcommand, option or
# value completes without a change here.

# _trireme_section TITLE: the lines below "TITLE:" in the help text on stdin.
_trireme_section() { sed -n "/^$1:\$/,/^\$/{ /^  /p }"; }

_trireme_subcommands() { _trireme_section Commands | sed 's/^ *\([^ ]*\).*/\1/'; }

_trireme_options() { grep '^  -' | grep -o -- '--[a-z][a-z-]*' | sort -u; }

# The help text on stdin with each option on one line, however narrow the terminal.
_trireme_unfold() { sed -e ':next' -e '$!N' -e 's/\n \{8,\}/ /' -e 't next' -e P -e D; }

# The values in lines such as "  --level VALUE   one of: node rack". Remarks in brackets are for people.
_trireme_values() { sed -n 's/^.*one of: //p' | sed 's/([^)]*)//g'; }

# _trireme_help PROGRAM: the help text of the subcommand that the words before the cursor lead to.
_trireme_help() {
  local word command=("$1") help first=1
  [[ ${COMP_WORDS[1]} == help && $COMP_CWORD -gt 1 ]] && first=2  # "help plan" completes like "plan"
  help=$("${command[@]}" --help 2>/dev/null | _trireme_unfold)
  for word in "${COMP_WORDS[@]:first:COMP_CWORD-first}"; do
    if _trireme_subcommands <<<"$help" | grep -qxF -- "$word"; then
      command+=("$word")
      help=$("${command[@]}" --help 2>/dev/null | _trireme_unfold)
    fi
  done
  echo "$help"
}

# _trireme_option_line OPTION: its help line if it takes a value (the value's type stands one space behind it).
_trireme_option_line() {
  [[ $1 =~ ^--?[a-z-]+$ ]] && grep -m1 -E -- "^  (-[a-z],)?(--[a-z-]+,)*$1(,[^ ]+)? [A-Z]"
}

# Called by bash with the program, the word at the cursor and the one before it.
_trireme() {
  local word=$2 help option_line offers list=
  help=$(_trireme_help "$1")
  if [[ $word == -* ]]; then
    offers=$(_trireme_options <<<"$help")
  elif option_line=$(_trireme_option_line "$3" <<<"$help"); then
    offers=$(_trireme_values <<<"$option_line")
  else
    offers=$(_trireme_subcommands <<<"$help" && _trireme_section Arguments <<<"$help" | _trireme_values)
  fi
  # In a list, the word after the last comma is the one to complete.
  [[ $word == *,* ]] && list=${word%,*},
  mapfile -t COMPREPLY < <(compgen -P "$list" -W "$offers" -- "${word##*,}")
}

# Where there is nothing to offer, bash completes file names.
complete -o default -F _trireme trireme
