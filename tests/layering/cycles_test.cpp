// The check for include cycles, on this source tree and on small artificial trees.
#include "layering/cycles.h"

#include <fstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

class IncludeCycles : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  [[nodiscard]] Problems problems() const { return check_cycles(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(IncludeCycles, TriremeHasNone) {
  const Problems problems = check_cycles(TRIREME_SOURCE_DIR);
  EXPECT_TRUE(problems.empty()) << fmt::format("{}", fmt::join(problems, "\n"));
}

TEST_F(IncludeCycles, AcceptChainOfComponents) {
  put("src/comm/a.h", "#include \"comm/b.h\"\n");
  put("src/comm/a.cpp", "#include \"comm/a.h\"\n#include \"comm/c.h\"\n");
  put("src/comm/b.h", "#include \"comm/c.h\"\n");
  put("src/comm/c.h", "#include <string>\n#include \"trireme/comm.h\"\n");
  EXPECT_EQ(problems(), Problems{});
}

TEST_F(IncludeCycles, AreRejectedBetweenTwoHeaders) {
  put("src/comm/a.h", "#pragma once\n#include \"comm/b.h\"\n");
  put("src/comm/b.h", "#include \"comm/a.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle a -> b -> a\n"
                                 "  src/comm/a.h:2 includes comm/b.h\n"
                                 "  src/comm/b.h:1 includes comm/a.h"});
}

TEST_F(IncludeCycles, CountSourcesOfHeader) {
  put("src/comm/a.h", "");
  put("src/comm/a.cpp", "#include \"comm/a.h\"\n#include \"comm/b.h\"\n");
  put("src/comm/b.h", "#include \"comm/a.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle a -> b -> a\n"
                                 "  src/comm/a.cpp:2 includes comm/b.h\n"
                                 "  src/comm/b.h:1 includes comm/a.h"});
}

TEST_F(IncludeCycles, AreFoundThroughRelativeIncludes) {
  put("src/comm/a.h", "#include \"b.h\"\n");
  put("src/comm/b.h", "#include \"../comm/a.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle a -> b -> a\n"
                                 "  src/comm/a.h:1 includes b.h\n"
                                 "  src/comm/b.h:1 includes ../comm/a.h"});
}

TEST_F(IncludeCycles, AreRejectedBetweenSubFolders) {
  put("src/comm/group/core.h", "#include \"comm/world/core.h\"\n");
  put("src/comm/world/core.h", "");
  put("src/comm/world/join.cpp", "\n#include \"comm/group/core.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle group/ -> world/ -> group/\n"
                                 "  src/comm/group/core.h:1 includes comm/world/core.h\n"
                                 "  src/comm/world/join.cpp:2 includes comm/group/core.h"});
}

TEST_F(IncludeCycles, AreRejectedBetweenFileAndSubFolder) {
  put("src/comm/kernels.h", "");
  put("src/comm/kernels.cpp", "#include \"comm/kernels/loops.h\"\n");
  put("src/comm/kernels/loops.h", "#include \"comm/kernels.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle kernels -> kernels/ -> kernels\n"
                                 "  src/comm/kernels.cpp:1 includes comm/kernels/loops.h\n"
                                 "  src/comm/kernels/loops.h:1 includes comm/kernels.h"});
}

TEST_F(IncludeCycles, AreRejectedInsideSubFolder) {
  put("src/comm/tcp/a.h", "#include \"comm/tcp/b.h\"\n");
  put("src/comm/tcp/b.h", "#include \"comm/tcp/a.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm/tcp: include cycle a -> b -> a\n"
                                 "  src/comm/tcp/a.h:1 includes comm/tcp/b.h\n"
                                 "  src/comm/tcp/b.h:1 includes comm/tcp/a.h"});
}

TEST_F(IncludeCycles, CountPublicHeaders) {
  put("src/comm/CMakeLists.txt", "trireme_library(comm PUBLIC_HEADERS a.h SOURCES a.cpp)\n");
  put("include/trireme/a.h", "");
  put("src/comm/a.cpp", "#include \"trireme/a.h\"\n#include \"comm/b.h\"\n");
  put("src/comm/b.h", "#include \"trireme/a.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle a -> b -> a\n"
                                 "  src/comm/a.cpp:2 includes comm/b.h\n"
                                 "  src/comm/b.h:1 includes trireme/a.h"});
}

TEST_F(IncludeCycles, AreRejectedBetweenPublicHeaders) {
  put("src/comm/CMakeLists.txt", "trireme_library(comm PUBLIC_HEADERS a.h b.h)\n");
  put("include/trireme/a.h", "#include \"trireme/b.h\"\n");
  put("include/trireme/b.h", "#include \"trireme/a.h\"\n");
  EXPECT_EQ(problems(), Problems{"src/comm: include cycle a -> b -> a\n"
                                 "  include/trireme/a.h:1 includes trireme/b.h\n"
                                 "  include/trireme/b.h:1 includes trireme/a.h"});
}

TEST_F(IncludeCycles, AreReportedOncePerStronglyConnectedSet) {
  put("src/comm/a.h", "#include \"comm/b.h\"\n");
  put("src/comm/b.h", "#include \"comm/c.h\"\n");
  put("src/comm/c.h", "#include \"comm/a.h\"\n#include \"comm/b.h\"\n");
  put("src/comm/x.h", "#include \"comm/a.h\"\n#include \"comm/y.h\"\n");
  put("src/comm/y.h", "#include \"comm/x.h\"\n");
  EXPECT_EQ(problems(), (Problems{"src/comm: include cycle a -> b -> c -> a\n"
                                  "  src/comm/a.h:1 includes comm/b.h\n"
                                  "  src/comm/b.h:1 includes comm/c.h\n"
                                  "  src/comm/c.h:1 includes comm/a.h",
                                  "src/comm: include cycle x -> y -> x\n"
                                  "  src/comm/x.h:2 includes comm/y.h\n"
                                  "  src/comm/y.h:1 includes comm/x.h"}));
}

}  // namespace
}  // namespace trireme::layering
