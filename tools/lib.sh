#!/usr/bin/env bash
# Sourced by ./run, ./test and tools/lint: install what is missing, configure, build.
# All that is said here goes to stderr, so that `./run … --json | jq` works.

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# packages GROUP…: the packages of these groups, one per line.
packages() {
  local group package
  while read -r group package; do
    if [[ " $* " == *" $group "* ]]; then
      echo "$package"
    fi
  done <"$root/tools/packages.txt"
}

# The C++ files that git knows or does not ignore, each ended by a NUL, relative to the root.
cpp_files() {
  local file
  git -C "$root" ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' |
    while IFS= read -r -d '' file; do
      if [[ -f $root/$file ]]; then
        printf '%s\0' "$file"
      fi
    done
}

# missing_packages GROUP…: those of them that are not installed.
missing_packages() {
  local wanted package installed
  mapfile -t wanted < <(packages "$@")
  # dpkg-query fails when it does not know one of the names; what it printed still counts.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    if [[ $'\n'$installed$'\n' != *$'\n'"installed $package"$'\n'* ]]; then
      echo "$package"
    fi
  done
}

# Asks for a password only where somebody can type one.
sudo_works() {
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }
}

# need_packages GROUP…: installs what is missing, or says how to and ends the script.
# Touches neither apt nor the network when everything is there.
need_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian, so nothing is installed; needed: $(packages "$@" | tr '\n' ' ')"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    return
  fi
  if (($(id -u) != 0)); then
    if ! sudo_works; then
      say "packages are missing and there is neither root nor sudo to install them; as root, run"
      echo "apt-get install -y --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  apt_get update || say "apt-get update failed; trying with the package lists that are here"
  apt_get install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install ${missing[*]} (is the network there?)"
}

# Runs as root through the caller's `as_root`; waits its turn when another apt is at work.
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@" >&2
}

# quietly LOG COMMAND…: on a terminal the output is shown as it comes; else it goes to LOG, and only what
# matters of it is shown if the command fails.
quietly() {
  local log=$1
  shift
  if [[ -t 2 ]]; then
    "$@" >&2
  elif ! "$@" >"$log" 2>&1; then
    show_errors "$log" >&2
    say "the whole log: $log"
    return 1
  fi
}

# The part of a build log that a person needs: from the first failure on, at most 80 lines.
show_errors() {
  local first
  first=$(grep -n -m1 -E '^FAILED: |error:|Error ' "$1" | cut -d: -f1)
  tail -n "+${first:-1}" "$1" | head -n 80
}

# The instruction sets that CPU kernels are compiled for in a new build folder: native, this processor's widest (./run);
# tested, the baseline too; or all (./test --long). Each takes a minute of a core to compile. A folder that has more of
# them keeps them. Without a GPU, native also leaves out the CUDA device.
cpu_loops=tested

# has_loops PRESET: whether the configured build has those of `cpu_loops`.
has_loops() {
  [[ $cpu_loops == native ]] ||
    grep -qsE "^TRIREME_CPU_LOOPS:STRING=(all|$cpu_loops)\$" "$root/build/$1/CMakeCache.txt"
}

# configure PRESET: only if it has not been done, the presets changed, the tree was moved, or instruction sets are
# missing. Ninja itself sees changes to any CMakeLists.txt.
configure() {
  local preset=$1 stamp=$root/build/$1/.configured
  if [[ -f $stamp && $(<"$stamp") == "$root" && ! $root/CMakePresets.json -nt $stamp ]] && has_loops "$preset"; then
    return
  fi
  say "configuring ($preset)"
  quietly "$root/build/$preset.configure.log" cmake --fresh -DTRIREME_CPU_LOOPS="$cpu_loops" --preset "$preset" || return
  echo "$root" >"$stamp"
}

# A ccache without a folder to write to (no home, say) would fail each compilation; then it is better off.
check_ccache() {
  local cache
  if cache=$(ccache --get-config cache_dir 2>/dev/null) && ! { mkdir -p "$cache" && [[ -w $cache ]]; } 2>/dev/null; then
    export CCACHE_DISABLE=1
  fi
}

# report_progress LOG: where nobody sees Ninja's own progress, one line every half minute: "41 of 380 done".
report_progress() {
  local steps
  while ! read -r -t 30 <> <(:); do # which needs no program
    steps=$(tail -n 1 "$1" 2>/dev/null | sed -n 's|^\[\([0-9]*\)/\([0-9]*\)\].*|\1 of \2|p')
    [[ -z $steps ]] || say "  $steps done"
  done
}

# build PRESET [TARGET…]: configures if need be and builds. Two at once take turns.
build() (
  preset=$1
  shift
  cd "$root" || exit
  mkdir -p build
  exec 9>"build/$preset.lock"
  flock 9
  check_ccache
  configure "$preset" || fail "configuring $preset failed"
  say "building ($preset)"
  if [[ ! -t 2 ]]; then
    report_progress "$root/build/$preset.log" &
    reporter=$!
    trap 'kill "$reporter" 2>/dev/null || true' EXIT
  fi
  quietly "$root/build/$preset.log" cmake --build "build/$preset" ${1:+--target "$@"} || fail "building $preset failed"
)
