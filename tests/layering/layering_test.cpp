// The layering check, on this source tree and on small trees with one injected mistake each.
#include "layering/layering.h"

#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReadme =
    "Prose, and a table that is another one:\n"
    "| value | says |\n"
    "|---|---|\n"
    "| `Graph` | what |\n"
    "\n"
    "| folder | what lives there | may include |\n"
    "|---|---|---|\n"
    "| `base` | errors | – |\n"
    "| `tensor` | shapes | base |\n"
    "| `graph` | ops | tensor |\n"
    "| `comm` | transports | base |\n"
    "| `cli` | the program | all (public headers), comm |\n";

/// A small valid tree in a temporary folder, to be broken by put().
class Layering : public testing::Test {
 protected:
  void SetUp() override {
    put("src/README.md", kReadme);
    put("src/CMakeLists.txt", "add_subdirectory(base)\n");
    put("src/base/CMakeLists.txt",
        "trireme_library(base\n  PUBLIC_HEADERS error.h\n  SOURCES text.cpp\n  LINKS fmt::fmt)\n");
    put("src/base/version.h.in", "#pragma once\n");
    put("src/base/text.h", "#include <string>\n");
    put("src/tensor/CMakeLists.txt", "trireme_library(tensor SOURCES shape.cpp DEPENDS base)\n");
    put("src/tensor/shape.h", "#include \"base/text.h\"\n");
    put("src/graph/CMakeLists.txt",
        "trireme_library(graph\n  PUBLIC_HEADERS graph.h\n  DEPENDS tensor base)\n");
    put("src/graph/op.cpp",
        "#include \"base/text.h\"\n#include \"tensor/shape.h\"\n#include \"trireme/error.h\"\n");
    put("src/comm/CMakeLists.txt",
        "trireme_library(comm SOURCES tcp.cpp DEPENDS base) # not: trireme::graph\n");
    put("src/comm/tcp.cpp", "#include \"trireme/version.h\"\n// #include \"graph/op.h\"\n");
    put("src/cli/CMakeLists.txt",
        "target_link_libraries(trireme_program PRIVATE trireme::graph trireme::comm "
        "trireme_flags)\n");
    put("src/cli/main.cpp",
        "#include <CLI/CLI.hpp>\n#include \"comm/tcp.h\"\n#include \"trireme/graph.h\"\n");
    put("include/trireme/error.h", "#include <string>\n");
    put("include/trireme/graph.h", "#include \"trireme/error.h\"\n");
  }

  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  [[nodiscard]] Problems problems() const { return check_tree(root_); }

  TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(Layering, HoldsInTrireme) {
  const Problems problems = check_tree(TRIREME_SOURCE_DIR);
  EXPECT_TRUE(problems.empty()) << fmt::format("{}", fmt::join(problems, "\n"));
}

TEST_F(Layering, AcceptsValidTree) {
  EXPECT_EQ(problems(), Problems{});
}

TEST_F(Layering, RejectsUpwardInclude) {
  put("src/comm/tcp.cpp", "#pragma once\n\n#include \"graph/op.h\"\n");
  EXPECT_EQ(
      problems(),
      Problems{
          "src/comm/tcp.cpp:3: comm includes graph/op.h of graph, but comm may include only base"});
}

TEST_F(Layering, RejectsRelativeInclude) {
  put("src/comm/tcp.cpp", "#include \"../graph/op.cpp\"\n");
  EXPECT_EQ(
      problems(),
      Problems{"src/comm/tcp.cpp:1: comm includes ../graph/op.cpp of graph, but comm may include "
               "only base"});
}

TEST_F(Layering, RejectsPublicHeaderOfHigherFolder) {
  put("src/tensor/deep/shape.cpp", "#  include <trireme/graph.h>\n");
  EXPECT_EQ(
      problems(),
      Problems{"src/tensor/deep/shape.cpp:1: tensor includes trireme/graph.h of graph, but tensor "
               "may include only base"});
}

TEST_F(Layering, CoversPublicHeaders) {
  put("include/trireme/error.h", "#include \"trireme/graph.h\"\n");
  EXPECT_EQ(
      problems(),
      Problems{"include/trireme/error.h:1: base includes trireme/graph.h of graph, but base may "
               "include nothing"});
}

TEST_F(Layering, RejectsInternalHeaderInPublicHeader) {
  put("include/trireme/graph.h", "#include \"tensor/shape.h\"\n");
  EXPECT_EQ(problems(), Problems{"include/trireme/graph.h:1: a public header includes "
                                 "tensor/shape.h, which is not installed"});
}

TEST_F(Layering, RejectsInternalHeaderWhereOnlyPublicOnesAreAllowed) {
  put("src/cli/main.cpp",
      "#include \"comm/tcp.h\"\n#include \"graph/op.h\"\n#include \"base/text.h\"\n");
  EXPECT_EQ(problems(),
            (Problems{"src/cli/main.cpp:2: cli includes graph/op.h of graph, but cli may "
                      "include only its public headers",
                      "src/cli/main.cpp:3: cli includes base/text.h of base, but cli may "
                      "include only its public headers"}));
}

TEST_F(Layering, RejectsUpwardDependency) {
  put("src/comm/CMakeLists.txt",
      "trireme_library(comm\n  SOURCES tcp.cpp\n  DEPENDS base tensor\n  LINKS fmt::fmt)\n");
  EXPECT_EQ(
      problems(),
      Problems{"src/comm/CMakeLists.txt:3: comm links tensor, but comm may include only base"});
}

TEST_F(Layering, RejectsUpwardLink) {
  for (const char* link : {"trireme::graph", "trireme_graph", "$<LINK_ONLY:trireme::graph>"}) {
    put("src/comm/CMakeLists.txt",
        fmt::format("target_link_libraries(trireme_comm PRIVATE {})\n", link));
    EXPECT_EQ(
        problems(),
        Problems{"src/comm/CMakeLists.txt:1: comm links graph, but comm may include only base"})
        << link;
  }
}

TEST_F(Layering, ReportsFolderWithoutRow) {
  put("src/planner/search.cpp", "");
  put("src/planner/search.h", "");
  EXPECT_EQ(
      problems(),
      Problems{"src/planner/search.cpp: src/planner has no row in the table of src/README.md"});
}

TEST_F(Layering, ReportsCodeOutsideAnyFolder) {
  put("src/main.cpp", "");
  EXPECT_EQ(problems(), Problems{"src/main.cpp: src/ has no row in the table of src/README.md"});
}

TEST_F(Layering, ReportsRowWithoutFolder) {
  put("src/README.md", std::string(kReadme) + "| `ps` | parameter server | comm |\n");
  EXPECT_EQ(problems(),
            Problems{"src/README.md: the table has a row for ps, but there is no src/ps"});
}

TEST_F(Layering, ReportsUnlistedPublicHeader) {
  put("include/trireme/lost.h", "");
  EXPECT_EQ(
      problems(),
      Problems{"include/trireme/lost.h: no folder of src/ lists lost.h under PUBLIC_HEADERS"});
}

TEST_F(Layering, ReportsPublicHeaderListedTwice) {
  put("src/comm/CMakeLists.txt", "trireme_library(comm PUBLIC_HEADERS graph.h DEPENDS base)\n");
  EXPECT_EQ(problems(),
            Problems{"src/graph/CMakeLists.txt:2: graph lists graph.h, which comm lists already"});
}

TEST_F(Layering, ReportsMissingListedHeader) {
  put("src/comm/CMakeLists.txt", "trireme_library(comm\n  PUBLIC_HEADERS comm.h DEPENDS base)\n");
  EXPECT_EQ(problems(), Problems{"src/comm/CMakeLists.txt:2: there is no include/trireme/comm.h"});
}

TEST_F(Layering, SupportsNestedFolders) {
  put("src/README.md",
      std::string(kReadme) + "| `backend/cpu`, `backend/cuda` | kernels | comm |\n");
  put("src/backend/CMakeLists.txt", "add_subdirectory(cpu)\n");
  put("src/backend/cpu/CMakeLists.txt", "trireme_library(backend_cpu DEPENDS comm base)\n");
  put("src/backend/cpu/add.cpp", "#include \"backend/cpu/add.h\"\n#include \"comm/tcp.h\"\n");
  put("src/backend/cuda/add.cu", "#include \"backend/cpu/add.h\"\n");
  EXPECT_EQ(
      problems(),
      Problems{"src/backend/cuda/add.cu:1: backend/cuda includes backend/cpu/add.h of backend/cpu, "
               "but backend/cuda may include only base, comm"});
}

TEST(LayeringTable, IncludesTransitiveDependencies) {
  Problems problems;
  const Table table = parse_table(kReadme, problems);
  EXPECT_EQ(problems, Problems{});
  EXPECT_EQ(table.may_use.at("base"), std::set<std::string>{});
  EXPECT_EQ(table.may_use.at("graph"), (std::set<std::string>{"base", "tensor"}));
  EXPECT_EQ(table.may_use.at("cli"), (std::set<std::string>{"base", "comm", "graph", "tensor"}));
}

TEST(LayeringTable, ReportsCycle) {
  Problems problems;
  (void)parse_table(
      "| folder | what | may include |\n| `a` | | b |\n| `b` | | c |\n| `c` | | a |\n| `d` | | a "
      "|\n",
      problems);
  EXPECT_EQ(problems, Problems{"src/README.md: the table has a cycle through a, b, c"});
}

TEST(LayeringTable, ReportsCycleThroughAll) {
  Problems problems;
  (void)parse_table("| folder | what | may include |\n| `a` | | cli |\n| `cli` | | all |\n",
                    problems);
  EXPECT_EQ(problems, Problems{"src/README.md: the table has a cycle through a, cli"});
}

TEST(LayeringTable, ReportsNameWithoutRow) {
  Problems problems;
  (void)parse_table("| folder | what | may include |\n| `a` | | basis |\n", problems);
  EXPECT_EQ(problems,
            Problems{"src/README.md: a may include basis, but the table has no row for basis"});
}

TEST(LayeringTable, ReportsMissingTable) {
  Problems problems;
  (void)parse_table("prose\n| value | says |\n| `Graph` | what |\n", problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems.front().find("no layering table"), std::string::npos) << problems.front();
}

}  // namespace
}  // namespace trireme::layering
