#include "train/run/gather_traces.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::train {

Trace gather_traces(World& world, Trace mine) {
  Group& all = world.all();
  if (world.rank() != 0) {
    const std::string text = to_chrome_json(mine);
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    const std::array<std::int64_t, 1> size{std::ssize(bytes)};
    all.send<std::int64_t>(size, 0);
    all.send<std::uint8_t>(bytes, 0);
    return {};
  }
  for (Rank rank = 1; rank < world.size(); ++rank) {
    std::array<std::int64_t, 1> size{};
    all.receive<std::int64_t>(size, rank);
    std::vector<std::uint8_t> bytes(size[0]);
    all.receive<std::uint8_t>(bytes, rank);
    mine.append(parse_trace(std::string(bytes.begin(), bytes.end())));
  }
  return mine;
}

}  // namespace trireme::train
