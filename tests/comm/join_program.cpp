// A job's program, for launchers to start: joins its world according to the variables, sums the ranks' numbers, and
// prints the sum on one line.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/comm.h"

namespace {

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

int main() {
  try {
    trireme::World world = trireme::join(variable);
    std::vector<std::int64_t> data(1000, world.rank() + 1);
    world.all().run(trireme::allreduce<std::int64_t>(data));
    // One write, so that the lines of ranks do not mix.
    const std::string line =
        fmt::format("rank {} of {}: {} to {}, {} hosts\n", world.rank(), world.size(), data.front(),
                    data.back(), world.hosts().size());
    std::fputs(line.c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
