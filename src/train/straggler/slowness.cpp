#include "trireme/slowness.h"

#include <string_view>

#include <fmt/format.h>

#include "trireme/message.h"

namespace trireme {
namespace {

/// Whether what follows belongs to the strategy before it: "group=2,global=8", "ps:ssp=3,pool".
bool continues_strategy(std::string_view text) {
  return text.starts_with(",global=") || text.starts_with(",pool") ||
         text.starts_with(",inconsistent");
}

}  // namespace

Slowness slow_workers(const simulate::CountAndFactor& slow, int workers) {
  Slowness slowness{.name = "permanent",
                    .meaning = fmt::format("{:g} of {} workers takes {:g} times as long",
                                           slow.count, workers, slow.factor)};
  slowness.variation.slow_workers = static_cast<int>(slow.count);
  slowness.variation.slow_factor = slow.factor;
  require(slow.count == slowness.variation.slow_workers && slow.count <= workers,
          fmt::format("{:g} is not a number of workers from 0 to {}", slow.count, workers));
  return slowness;
}

Slowness slow_steps(const simulate::CountAndFactor& chance) {
  Slowness slowness{.name = "transient",
                    .meaning = fmt::format("each step of each worker takes {:g} times as long with "
                                           "probability {:g} %",
                                           chance.factor, 100 * chance.count)};
  slowness.variation.transient_chance = chance.count;
  slowness.variation.transient_factor = chance.factor;
  return slowness;
}

std::vector<SyncSpec> parse_sync_list(const std::string& text) {
  std::vector<std::string> names{""};
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ',' && !continues_strategy(std::string_view{text}.substr(at))) {
      names.emplace_back();
    } else {
      names.back().push_back(text[at]);
    }
  }
  std::vector<SyncSpec> strategies;
  strategies.reserve(names.size());
  for (const std::string& name : names) {
    strategies.push_back(parse_sync(name));
  }
  return strategies;
}

}  // namespace trireme
