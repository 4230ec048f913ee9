#!/usr/bin/env bash
# Uses Trireme as an external project would: consumer_test.sh CASE
# From the environment: BUILD (the build to install), PREFIX (a scratch folder), LIBDIR (lib or similar, inside it),
# CC, CXX and CXXFLAGS, VERSION.
set -euo pipefail
outside=$(dirname "$(readlink -f "$0")")/outside
work=$PREFIX.$1

fail() {
  echo "$*" >&2
  exit 1
}

# Installed in one place and moved to another, to detect absolute paths.
installs() {
  rm -rf "$PREFIX" "$PREFIX.first"
  cmake --install "$BUILD" --prefix "$PREFIX.first" >/dev/null
  mv "$PREFIX.first" "$PREFIX"
  "$PREFIX/bin/trireme" --version | grep -qF "$VERSION" || fail "the installed program is not version $VERSION"
  for file in bash-completion/completions/trireme doc/trireme/LICENSE doc/trireme/CHANGELOG.md; do
    [[ -s $PREFIX/share/$file ]] || fail "share/$file is not installed"
  done
  if grep -rIlF "$PREFIX.first" "$PREFIX"; then
    fail "these files hold the path of the first prefix"
  fi
}

# configure VERSION: configures the outside project in a fresh folder.
configure() {
  rm -rf "$work"
  cmake -S "$outside" -B "$work" -G Ninja -DCMAKE_PREFIX_PATH="$PREFIX" -DWANTED_VERSION="$1"
}

case $1 in
  Installs) installs ;;
  FindsCMakePackage)
    configure "$VERSION"
    cmake --build "$work" --target outside
    "$work/outside"
    ;;
  TrainsOnOneAndFourRanks)
    configure "$VERSION"
    cmake --build "$work" --target train
    for ranks in 1 4; do
      mkdir "$work/$ranks"
      (cd "$work/$ranks" && "$work/train" "$ranks" >losses)
      [[ -s $work/$ranks/small-gpt/exported/model.safetensors ]] || fail "$ranks ranks: nothing is exported"
      [[ $(grep -c '^step' "$work/$ranks/losses") == 40 ]] || fail "$ranks ranks: not 40 steps"
    done
    paste "$work/1/losses" "$work/4/losses" | awk '/^step/ && ($4 - $8 > 2e-3 || $8 - $4 > 2e-3) { print; wrong = 1 }
      END { exit wrong }' || fail "losses on 4 ranks differ from those on one"
    # The program reads what the library wrote.
    (cd "$work/4" && "$PREFIX/bin/trireme" train --resume small-gpt --steps 41 >/dev/null) || fail "the program cannot resume it"
    ;;
  AddsOpAndBackend)
    configure "$VERSION"
    cmake --build "$work" --target op_and_backend
    "$work/op_and_backend"
    ;;
  RunsFromC)
    configure "$VERSION"
    cmake --build "$work" --target from_c
    # As in docs/comm.md: a C compiler links it, too.
    export PKG_CONFIG_PATH=$PREFIX/$LIBDIR/pkgconfig
    flags=()
    eval "flags=($CXXFLAGS $(pkg-config --cflags --libs --static trireme))"
    "$CC" -std=c11 -Wall -Werror "$outside/../../../examples/collectives.c" "${flags[@]}" -o "$work/by_pkg_config"
    for program in from_c by_pkg_config; do
      [[ $("$work/$program") == "4 ranks: all operations give the expected results" ]] ||
        fail "$program prints something else"
    done
    ;;
  RejectsAnotherMinorVersion)
    if output=$(configure 99.0 2>&1); then
      fail "version 99.0 was found"
    fi
    grep -qF "not accepted" <<<"$output" || fail "$output"
    ;;
  LinksThroughPkgConfig)
    export PKG_CONFIG_PATH=$PREFIX/$LIBDIR/pkgconfig
    [[ $(pkg-config --modversion trireme) == "$VERSION" ]] || fail "trireme.pc has another version"
    flags=()
    eval "flags=($CXXFLAGS $(pkg-config --cflags --libs --static trireme))" # it quotes for a shell
    "$CXX" -std=c++20 "$outside/main.cpp" "${flags[@]}" -o "$work"
    "$work"
    # As in docs/comm.md.
    "$CXX" -std=c++20 -O2 "$outside/../../../examples/allreduce.cpp" "${flags[@]}" -o "$work.allreduce"
    [[ $("$work.allreduce" | sort | tr '\n' ';') == "rank 0 of 4: 6;rank 1 of 4: 6;rank 2 of 4: 6;rank 3 of 4: 6;" ]] ||
      fail "allreduce.cpp prints something else"
    ;;
  HeadersCompileInAnyOrder)
    # A header that lacks an include fails where it precedes those that have it.
    mkdir -p "$work"
    (cd "$PREFIX/include" && printf '#include <%s>\n' trireme/*.h) >"$work/ascending.cpp"
    tac "$work/ascending.cpp" >"$work/descending.cpp"
    for order in ascending descending; do
      "$CXX" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$PREFIX/include" "$work/$order.cpp" ||
        fail "the headers do not compile in $order order"
    done
    ;;
  EveryHeaderIsSelfContained)
    export CXX PREFIX
    # shellcheck disable=SC2016 # the inner bash expands them
    for header in "$PREFIX"/include/trireme/*.h; do
      echo "${header##*/}"
    done | xargs -P "$(nproc)" -I {} bash -c '
      "$CXX" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$PREFIX/include" -x c++ - <<<"#include <trireme/$1>" ||
        { echo "$1 does not compile on its own" >&2; exit 1; }' _ {}
    ;;
  *) fail "no case $1" ;;
esac
