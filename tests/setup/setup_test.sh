#!/usr/bin/env bash
# Tests ./run and ./test on machines that lack something: setup_test.sh CASE ROOT
#
# Each case copies the scripts to a fresh folder and sets a PATH that contains only harmless tools and mocks:
# dpkg-query, apt-get, id, sudo, cmake, ctest. The mocks log their arguments to `calls`.
set -euo pipefail
case_name=$1
root=$2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
bin=$folder/bin
calls=$folder/calls
mkdir -p "$tree" "$bin"
: >"$calls"

give_up() {
  echo "$*" >&2
  echo "--- calls:" >&2
  cat "$calls" >&2
  echo "--- stderr:" >&2
  cat "$folder/stderr" >&2
  exit 1
}

# stand_in NAME: a mock program of that name, whose text comes from stdin; it knows $calls and $folder.
stand_in() {
  {
    echo "#!$BASH"
    echo "folder=$folder"
    echo "echo \"$1 \$*\" >>'$calls'"
    cat
  } >"$bin/$1"
  chmod +x "$bin/$1"
}

make_tree() {
  cp -r "$root/run" "$root/test" "$root/tools" "$root/CMakePresets.json" "$tree"
  local tool
  for tool in bash cat cut dirname env flock grep head mkdir nproc readlink tail tr; do
    ln -s "$(type -P "$tool")" "$bin/$tool"
  done
  # All packages except those in the file `missing` are installed. Like the real one, fails on an unknown package.
  stand_in dpkg-query <<'TEXT'
status=0
for package in "${@:4}"; do
  if grep -qxF -- "$package" "$folder/missing"; then status=1; else echo "installed $package"; fi
done
exit $status
TEXT
  # Configuring and building: writes the program, which prints its arguments.
  stand_in cmake <<'TEXT'
echo "noise of cmake"
echo "CCACHE_DISABLE=${CCACHE_DISABLE:-}" >>"$folder/calls"
if [[ $1 == --build ]]; then
  if [[ -e $folder/broken ]]; then printf 'FAILED: x.o\nx.cpp:1: error: planted\n'; exit 1; fi
  printf '#!/usr/bin/env bash\necho "trireme $* in $PWD"\n' >"$2/trireme"
  PATH=/usr/bin:/bin chmod +x "$2/trireme"
else
  mkdir -p "build/${*: -1}"
  echo "${2/#-DTRIREME_CPU_LOOPS=/TRIREME_CPU_LOOPS:STRING=}" >"build/${*: -1}/CMakeCache.txt"
fi
TEXT
  stand_in ctest <<'TEXT'
echo "100% tests passed"
TEXT
  stand_in apt-get <<'TEXT'
if [[ -e $folder/no_network ]]; then exit 100; fi
TEXT
  am_root
  all_installed
}

am_root() { stand_in id <<<'echo 0'; }
am_user() { stand_in id <<<'echo 1000'; }
all_installed() { : >"$folder/missing"; }
lack() { printf '%s\n' "$@" >"$folder/missing"; }
# Runs the command, as the real one does.
have_sudo() {
  ln -s "$(type -P true)" "$bin/true"
  stand_in sudo <<'TEXT'
while [[ $1 == -* ]]; do shift; done
"$@"
TEXT
}
# Requires a password.
have_sudo_that_refuses() { stand_in sudo <<<'exit 1'; }

# call WANTED_STATUS COMMAND…: runs it with the mocks and keeps stdout and stderr.
call() {
  local wanted=$1 status=0
  shift
  env -u CCACHE_DISABLE PATH="$bin" "$@" >"$folder/stdout" 2>"$folder/stderr" </dev/null || status=$?
  ((status == wanted)) || give_up "'$*' ended with $status, not $wanted"
}

expect_stdout() { [[ $(<"$folder/stdout") == "$1" ]] || give_up "stdout is '$(<"$folder/stdout")', not '$1'"; }
expect_stderr() { grep -qxF -- "$1" "$folder/stderr" || give_up "stderr lacks the line '$1'"; }
expect_called() { grep -qF -- "$1" "$calls" || give_up "'$1' was not called"; }
expect_not_called() { ! grep -qF -- "$1" "$calls" || give_up "'$1' was called"; }

make_tree
case $case_name in
  SkipsAptWhenAllIsInstalled)
    call 0 "$tree/run" --version
    expect_called "dpkg-query -W -f"
    expect_not_called apt-get
    ;;
  InstallsMissingPackagesAsRoot)
    lack ccache libfmt-dev
    call 0 "$tree/run" --version
    expect_called "apt-get -q -o DPkg::Lock::Timeout=120 update"
    expect_called "install -y --no-install-recommends ccache libfmt-dev"
    expect_stderr "run: installing ccache libfmt-dev"
    expect_stdout "trireme --version in $PWD"
    ;;
  InstallsThroughSudo)
    am_user
    have_sudo
    lack cmake
    call 0 "$tree/run" --version
    expect_called "sudo env DEBIAN_FRONTEND=noninteractive apt-get"
    expect_called "install -y --no-install-recommends cmake"
    ;;
  PrintsAptCommandWithoutRoot)
    am_user
    lack cmake ninja-build
    for script in run test; do
      call 1 "$tree/$script"
      expect_stderr "apt-get install -y --no-install-recommends cmake ninja-build"
    done
    have_sudo_that_refuses
    call 1 "$tree/run"
    expect_stderr "apt-get install -y --no-install-recommends cmake ninja-build"
    expect_not_called "apt-get -q"
    expect_stdout ""
    ;;
  ReportsAptFailure)
    lack cmake
    : >"$folder/no_network"
    call 1 "$tree/run"
    expect_stderr "run: apt-get could not install cmake (is the network there?)"
    ;;
  BuildsWithoutCheckingPackagesElsewhere)
    rm "$bin/dpkg-query"
    call 0 "$tree/run" --version
    expect_not_called apt-get
    expect_stdout "trireme --version in $PWD"
    ;;
  DisablesCcacheWithoutWritePermission)
    stand_in ccache <<<"echo $folder/cache"
    call 0 "$tree/run"
    expect_not_called "CCACHE_DISABLE=1"
    stand_in ccache <<<"echo /dev/null/cache"
    call 0 "$tree/run"
    expect_called "CCACHE_DISABLE=1"
    ;;
  RunKeepsStdoutForProgram)
    call 0 "$tree/run" cluster --json
    expect_stdout "trireme cluster --json in $PWD"
    expect_stderr "run: building (release)"
    ;;
  RunWithoutArgumentsShowsTour)
    call 0 "$tree/run"
    expect_stdout "trireme train in $PWD"
    ;;
  RunWorksFromAnyFolderAndThroughLink)
    ln -s "$tree/run" "$folder/link"
    cd "$folder"
    call 0 ./link --version
    expect_stdout "trireme --version in $folder"
    cd "$tree"
    call 0 ./run --version
    expect_stdout "trireme --version in $tree"
    ;;
  ConfiguresOnlyWhenNeeded)
    call 0 "$tree/run"
    expect_called "cmake --fresh -DTRIREME_CPU_LOOPS=native --preset release"
    : >"$calls"
    call 0 "$tree/run"
    expect_not_called "--preset"
    call 0 "$tree/test" # with the kernels of the baseline too
    expect_called "cmake --fresh -DTRIREME_CPU_LOOPS=tested --preset release"
    call 0 "$tree/test" --long # with the kernels of all processors
    expect_called "cmake --fresh -DTRIREME_CPU_LOOPS=all --preset release"
    : >"$calls"
    call 0 "$tree/test"
    expect_not_called "--preset release"
    : >"$calls"
    call 0 "$tree/run"
    expect_not_called "--preset"
    touch -d '+1 minute' "$tree/CMakePresets.json"
    call 0 "$tree/run"
    expect_called "--preset release"
    mv "$tree" "$folder/moved"
    touch -d '-1 minute' "$folder/moved/CMakePresets.json"
    : >"$calls"
    call 0 "$folder/moved/run"
    expect_called "--preset release"
    ;;
  ShowsErrorsOfBrokenBuild)
    : >"$folder/broken"
    call 1 "$tree/run"
    expect_stderr "x.cpp:1: error: planted"
    expect_stderr "run: building release failed"
    expect_stdout ""
    ;;
  TestRunsCTestInRequestedPreset)
    call 0 "$tree/test" --asan
    expect_called "cmake --build build/asan"
    expect_called "ctest --test-dir $tree/build/asan"
    expect_called "-LE long"
    [[ $(tail -n 1 "$folder/stdout") == "100% tests passed" ]] || give_up "the output does not end in CTest's summary"
    ;;
  TestFailsWhenCTestFails)
    stand_in ctest <<<'exit 8'
    call 1 "$tree/test"
    ;;
  TestReportsSkippedCudaParts)
    call 0 "$tree/test"
    expect_stderr "test: CUDA was left out: there is no nvcc, or this build does not take it (see docs/cuda.md)"
    echo "CMAKE_CUDA_COMPILER:STRING=/usr/bin/nvcc" >>"$tree/build/release/CMakeCache.txt"
    call 0 "$tree/test"
    (($(grep -c CUDA "$folder/stderr") == 0)) || give_up "something of CUDA is left out"
    printf '<testcase name="%s" time="1" status="%s">\n' A/CudaKernels.X/f32 notrun CudaRanks.Y notrun CudaZ.Z run Y.Z notrun \
      >"$tree/build/release/tests.xml"
    call 0 "$tree/test"
    grep -q '^test: CUDA was compiled, but 2 of its tests did not run' "$folder/stderr" || give_up "2 tests did not run"
    ;;
  TestReportsMissingFuzzTargets)
    call 0 "$tree/test" --long
    expect_stderr "test: SKIPPED the fuzz run: there is no tests/fuzz/*_fuzz.cpp"
    expect_not_called "-LE long"
    ;;
  TestFuzzesInLongRun)
    mkdir -p "$tree/tests/fuzz"
    touch "$tree/tests/fuzz/a_fuzz.cpp"
    lack clang
    call 0 "$tree/test" --long
    expect_called "install -y --no-install-recommends clang"
    expect_called "cmake --build build/fuzz --target fuzzers"
    expect_called "ctest --test-dir $tree/build/fuzz"
    expect_called "ctest --test-dir $tree/build/release"
    ;;
  TestRejectsUnknownOptions)
    call 2 "$tree/test" --fast
    expect_stderr "test: unknown option --fast (see ./test --help)"
    (($(wc -l <"$folder/stderr") == 1)) || give_up "more than one line"
    call 2 "$tree/test" --changed
    call 2 "$tree/test" --lint --asan
    expect_not_called cmake
    ;;
  TestPrintsHelp)
    call 0 "$tree/test" --help
    grep -q '^Usage: ./test' "$folder/stdout" || give_up "no usage"
    expect_not_called cmake
    ;;
  *) give_up "no case $case_name" ;;
esac
