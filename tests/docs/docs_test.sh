#!/usr/bin/env bash
# Tests that the documentation is correct: docs_test.sh CASE ROOT PROGRAM EXAMPLES [PAGE]
# EXAMPLES is the folder of the built examples. With PAGE only that page is checked; otherwise all are.
#
# What these tests check in a page, besides links and headings:
# - a picture, ![…](pictures/X.svg), and directly before it <!-- trireme … --svg pictures/X.svg -->, which makes it;
# - a committed picture, ![…](docs/images/X.svg), and directly before it <!-- committed: trireme … --svg
#   docs/images/X.svg -->, which must draw exactly that file;
# - a block ```console of lines "$ trireme …" or "$ ./X" (the example X), each followed by lines that its output has
#   (runs of blanks count as one; a line that ends in … only needs to match the beginning) and, if it does not exit with
#   0, by [exit N]. The plans of examples/ are there;
# - a block ```cpp with <!-- file: examples/X.cpp --> directly before it, which must match that file exactly. The other
#   ```cpp blocks of comm.md are compiled and run: see make_snippets.sh;
# - a block ```sh, whose lines that begin with trireme must exit with 0 (the part after a pipe is not run);
# - a block ```schedule or ```pipeline, a text that must parse and verify; <!-- file: X.schedule --> directly before it
#   names it, for the commands of the page, and then it may be invalid.
set -uo pipefail
case_name=$1
root=$2
program=$3
examples=$4
only_page=${5:-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/pictures" "$folder/examples"
cp "$root"/examples/*.plan.json "$folder/examples/"
complaints=0

complain() {
  echo "$*" >&2
  complaints=$((complaints + 1))
}

# The pages that may link and be linked to, relative to the root.
pages() {
  if [[ -n $only_page ]]; then
    echo "$only_page"
  else
    (cd "$root" && printf '%s\n' docs/*.md README.md CONTRIBUTING.md)
  fi
}

# run COMMAND: runs "trireme …" or "./EXAMPLE" in $folder without a shell in between; puts its output in $output and
# returns its status.
run() {
  local words file=$program
  read -ra words <<<"$1"
  [[ ${words[0]} == ./* ]] && file=$examples/example_${words[0]#./}
  output=$(cd "$folder" && "$file" "${words[@]:1}" 2>&1)
}

squeeze() { sed 's/[[:space:]]\+/ /g; s/^ //; s/ $//'; }

# picture_commands PAGE: its commands in comments.
picture_commands() { sed -n 's/^<!-- \(trireme .*\) -->$/\1/p' "$root/$1"; }

check_pictures() {
  local page=$1 line before='' name picture='!\[.*\]\((pictures/[^)]*)\)'
  while IFS= read -r line; do
    if [[ $line =~ $picture ]]; then
      name=${BASH_REMATCH[1]}
      if [[ $before != '<!-- trireme '*" --svg $name -->" ]]; then
        complain "$page: $name has no comment <!-- trireme … --svg $name --> directly before it"
      fi
    elif [[ $before == '<!-- trireme '*' -->' ]]; then
      complain "$page: no picture follows ${before}"
    fi
    before=$line
  done <"$root/$page"
}

# Starts with <svg, possibly after an XML declaration.
is_svg() { [[ $(head -c 400 "$1" | tr '\n' ' ' | sed 's/^<?xml[^>]*?> *//') == '<svg'* ]]; }

check_drawing() {
  local page=$1 command file
  while IFS= read -r command; do
    file=$folder/${command##* --svg }
    rm -f "$file"
    if ! run "$command"; then
      complain "$page: $command: $output"
    elif ! is_svg "$file"; then
      complain "$page: $command: what it wrote does not begin with <svg"
    fi
  done < <(picture_commands "$page")
}

# committed_commands PAGE: the commands that draw its committed pictures.
committed_commands() { sed -n 's/^<!-- committed: \(trireme .*\) -->$/\1/p' "$root/$1"; }

# Every committed picture is what its command currently draws.
check_committed() {
  local page=$1 command file
  while IFS= read -r command; do
    file=${command##* --svg }
    mkdir -p "$folder/$(dirname "$file")"
    if ! run "$command"; then
      complain "$page: $command: $output"
    elif ! cmp -s "$folder/$file" "$root/$file"; then
      complain "$page: $file is out of date; run: $command"
    fi
    grep -qF "]($file)" "$root/$page" || complain "$page: no picture shows $file"
  done < <(committed_commands "$page")
}

# prose FILE: everything but its fenced blocks.
prose() { sed "/^ *\`\`\`/,/^ *\`\`\`/d" "$1"; }

# The anchor of each heading of a page, as GitHub generates them.
anchors() { prose "$1" | sed -n 's/^##* //p' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'; }

check_links() {
  local page=$1 link path anchor
  while IFS= read -r link; do
    case $link in http://* | https://* | mailto:* | pictures/*) continue ;; esac
    path=${link%%#*}
    anchor=
    [[ $link == *'#'* ]] && anchor=${link#*#}
    if [[ -n $path && ! -e $root/$(dirname "$page")/$path ]]; then
      complain "$page: the link $link leads nowhere"
    elif [[ -n $anchor ]]; then
      path=$root/${path:+$(dirname "$page")/}${path:-$page}
      grep -qxF -- "$anchor" <(anchors "$path") || complain "$page: the link $link: no such heading"
    fi
  done < <(prose "$root/$page" | grep -o ']([^) ]*)' | sed 's/^](//; s/)$//')
}

# names_of WHAT [COMMAND]: what "trireme COMMAND --help" offers for the option or argument after "one of:".
names_of() {
  "$program" "${2:-schedule}" --help | sed -e ':next' -e '$!N' -e 's/\n \{8,\}/ /' -e 't next' -e P -e D |
    grep -m1 -E "^ +$1" | sed -n 's/.*one of: //p' | sed 's/([^)]*)//'
}

check_catalogue() {
  local page=$root/docs/collectives.md name operations algorithms
  operations=$(names_of operation)
  algorithms=$(names_of '.*--algorithm')
  [[ -n $operations && -n $algorithms ]] || complain "trireme schedule --help does not list its names"
  for name in $operations; do
    grep -qF "\`$name\`" "$page" || complain "docs/collectives.md does not speak of the operation \`$name\`"
  done
  for name in $algorithms; do
    [[ $name == auto ]] || grep -qxF "### $name" "$page" || complain "docs/collectives.md has no heading ### $name"
  done
  page=$root/docs/pipelines.md
  [[ -n $(names_of '.*--schedule' pipeline) ]] || complain "trireme pipeline --help does not list its names"
  for name in $(names_of '.*--schedule' pipeline); do
    grep -qxF "### $name" "$page" || complain "docs/pipelines.md has no heading ### $name"
  done
}

# Every formula that the program prints is in the section of its algorithm.
check_formulas() {
  local page=$root/docs/collectives.md operation algorithm section formula count=0
  for algorithm in $(names_of '.*--algorithm'); do
    [[ $algorithm == auto ]] && continue
    section=$(sed -n "/^### $algorithm\$/,/^##* /p" "$page")
    for operation in $(names_of operation); do
      run "trireme schedule $operation --algorithm $algorithm --ranks 4 --size 4KiB --json" || continue
      formula=$(sed -n 's/.*"formula":"\([^"]*\)".*/\1/p' <<<"$output" | sed 's/, k = [0-9]*$//')
      count=$((count + 1))
      [[ $section == *"\`$formula\`"* ]] || complain "docs/collectives.md, $algorithm: $operation is not \`$formula\`"
    done
  done
  ((count > 30)) || complain "the program has only $count formulas"
}

# blocks PAGE KIND: the lines of its ```KIND blocks.
blocks() { sed -n "/^ *\`\`\`$2\$/,/^ *\`\`\`\$/{ /^ *\`\`\`/!p }" "$root/$1"; }

# check_texts KIND PAGE: writes each named ```KIND block into $folder; also runs the unnamed ones.
check_texts() {
  local kind=$1 page=$2 line before='' file=''
  while IFS= read -r line; do
    if [[ $line == '```'$kind ]]; then
      file=$folder/unnamed.$kind
      [[ $before =~ ^'<!-- file: '([A-Za-z0-9_.-]+)' -->'$ ]] && file=$folder/${BASH_REMATCH[1]}
      : >"$file"
    elif [[ -n $file && $line == '```' ]]; then
      if [[ $file == "$folder/unnamed.$kind" ]]; then
        run "trireme $kind --file unnamed.$kind" || complain "$page: a $kind is wrong: $output"
      fi
      file=''
    elif [[ -n $file ]]; then
      printf '%s\n' "$line" >>"$file"
    fi
    before=$line
  done <"$root/$page"
}

check_schedules() { check_texts schedule "$1"; }
check_pipelines() { check_texts pipeline "$1"; }

# Each ```cpp block that names a file is that file.
check_examples() {
  local page=$1 line before='' file=''
  while IFS= read -r line; do
    if [[ $line == '```cpp' && $before =~ ^'<!-- file: '(examples/[a-z_]+\.cpp)' -->'$ ]]; then
      file=${BASH_REMATCH[1]}
      : >"$folder/example.cpp"
    elif [[ -n $file && $line == '```' ]]; then
      diff "$root/$file" "$folder/example.cpp" >&2 || complain "$page: this is not $file"
      file=''
    elif [[ -n $file ]]; then
      printf '%s\n' "$line" >>"$folder/example.cpp"
    fi
    before=$line
  done <"$root/$page"
}

# shown LINE: whether $output, squeezed, has it.
shown() {
  if [[ $1 == *… ]]; then
    local beginning=${1%…}
    beginning=${beginning% }
    awk -v beginning="$beginning" 'index($0, beginning) == 1 { found = 1 } END { exit !found }' <<<"$output"
  else
    grep -qxF -- "$1" <<<"$output"
  fi
}

check_console() {
  local page=$1 line command='' status=0
  while IFS= read -r line; do
    line=$(squeeze <<<"$line")
    case $line in
      '') ;;
      '$ '*)
        ((status == 0)) || complain "$page: $command: exits with $status: $output"
        command=${line#\$ }
        run "$command"
        status=$?
        output=$(squeeze <<<"$output")
        ;;
      '[exit '*)
        [[ $line == "[exit $status]" ]] || complain "$page: $command: exits with $status, not $line"
        status=0
        ;;
      *) shown "$line" || complain "$page: $command: does not print: $line" ;;
    esac
  done < <(blocks "$page" console)
  ((status == 0)) || complain "$page: $command: exits with $status: $output"
}

check_commands() {
  local page=$1 command
  while IFS= read -r command; do
    run "$command" || complain "$page: $command: $output"
  done < <(blocks "$page" sh | sed -n 's/^ *\(trireme [^|>#]*\).*/\1/p')
}

for_every_page() {
  local page
  while IFS= read -r page; do
    "$1" "$page"
  done < <(pages)
}

case $case_name in
  PicturesListTheirCommands)
    for_every_page check_pictures
    ;;
  PictureCommandsRun)
    for_every_page check_drawing
    ;;
  CommittedPicturesAreCurrent)
    for_every_page check_committed
    [[ -n $(committed_commands README.md) ]] || complain "README.md has no committed picture"
    ;;
  LinksAreValid)
    for_every_page check_links
    ;;
  CatalogIsComplete)
    check_catalogue
    ;;
  FormulasMatchProgram)
    check_formulas
    ;;
  ExamplesMatchSources)
    for_every_page check_examples
    [[ $(grep -B1 -m1 -x '```cpp' "$root/docs/comm.md" | head -1) == '<!-- file: examples/allreduce.cpp -->' ]] ||
      complain "docs/comm.md does not begin with examples/allreduce.cpp"
    ;;
  CommandsMatchTheirOutput)
    for_every_page check_schedules
    for_every_page check_pipelines
    for_every_page check_console
    for_every_page check_commands
    ;;
  *)
    echo "no case $case_name" >&2
    exit 2
    ;;
esac
((complaints == 0))
