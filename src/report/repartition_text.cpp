#include "report/repartition_text.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/json.h"

namespace trireme::report {
namespace {

std::string op_text(const predict::Repartition& r) {
  if (r.op.empty()) {
    return "none";
  }
  std::string words = r.op == "pad"     ? "local (zeros elsewhere)"
                      : r.op == "slice" ? "local slice"
                                        : r.op;
  std::ranges::replace(words, '_', '-');
  return words;
}

std::int64_t most(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
}

std::string line(const RepartitionRow& row) {
  const predict::Repartition& r = row.predicted;
  std::string text = fmt::format("  {:<11} {:<11} {:<24} {:>12} {:>12} {:>11}", to_text(r.from),
                                 to_text(r.to), op_text(r), to_text(Bytes{most(r.sent)}),
                                 to_text(Bytes{r.total_sent()}), to_text(r.seconds));
  if (row.run) {
    text += row.is_right()
                ? "  executed: same bytes, right result"
                : fmt::format("  executed: {} in all instead, error {:g}",
                              to_text(Bytes{std::accumulate(row.run->sent.begin(),
                                                            row.run->sent.end(), std::int64_t{0})}),
                              row.run->largest_error);
  }
  return text + "\n";
}

}  // namespace

bool RepartitionRow::is_right() const {
  return !run || (run->largest_error == 0 && run->sent == predicted.sent);
}

std::string repartition_text(std::span<const RepartitionRow> rows, const Terminal& terminal) {
  const predict::Repartition& first = rows.front().predicted;
  std::string text = styled(fmt::format("{} on {} ranks", to_text(first.type), first.ranks()),
                            Style::Bold, terminal.color) +
                     "\n";
  text += fmt::format("  {:<11} {:<11} {:<24} {:>12} {:>12} {:>11}\n", "from", "to", "by",
                      "most a rank", "all ranks", "time");
  for (const RepartitionRow& row : rows) {
    text += line(row);
  }
  return text;
}

std::string repartition_json(std::span<const RepartitionRow> rows) {
  const predict::Repartition& first = rows.front().predicted;
  Json array = Json::array();
  for (const RepartitionRow& row : rows) {
    const predict::Repartition& r = row.predicted;
    Json one{{"from", to_text(r.from)},
             {"to", to_text(r.to)},
             {"op", r.op},
             {"bytes_sent", r.sent},
             {"seconds", r.seconds.count}};
    if (row.run) {
      one["executed"] =
          Json{{"bytes_sent", row.run->sent}, {"largest_error", row.run->largest_error}};
    }
    array.push_back(one);
  }
  return Json{{"shape", first.type.shape.dims()},
              {"dtype", to_text(first.type.dtype)},
              {"ranks", first.ranks()},
              {"repartitions", array}}
             .dump(2) +
         "\n";
}

}  // namespace trireme::report
