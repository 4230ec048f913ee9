#!/usr/bin/env bash
# Makes a program from the code in a page: make_snippets.sh PAGE OUTPUT
#
# Each ```cpp block becomes a function of a World, and main runs them one after the other on four threads; asserts are
# active in every build. Skips blocks that are a whole file (<!-- file: … --> directly before them); only compiles those
# with <!-- not run --> before them. Errors refer to lines of the page.
set -euo pipefail
page=$1
output=$2

awk -v page="$page" '
  BEGIN {
    print "// Made from " page "."
    print "#undef NDEBUG"
    split("array cassert cmath cstdio cstdlib optional span string vector", headers, " ")
    for (i = 1; i in headers; ++i) print "#include <" headers[i] ">"
    print "#include <trireme/comm.h>"
    print "using namespace trireme;"
  }
  inside && /^```$/ { print "}"; inside = 0; next }
  inside { print; next }
  /^```cpp$/ && before !~ /^<!-- file: / {
    inside = 1
    print "static void line_" NR "(World& world) {\n  (void)world;"
    print "#line " NR + 1 " \"" page "\""
    if (before != "<!-- not run -->") run[++count] = NR
  }
  { before = $0 }
  END {
    if (count < 5) exit 1
    print "int main() {"
    for (i = 1; i <= count; ++i) {
      print "  std::puts(\"line " run[i] "\");"
      print "  run_threads(4, line_" run[i] ");"
    }
    print "}"
  }' "$page" >"$output.new"
mv "$output.new" "$output"
