#include "trireme/ps_pool.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "ps/pool_row.h"
#include "trireme/message.h"
#include "trireme/ps_train_update.h"

namespace trireme::ps {
namespace {

std::size_t width_for(int workers) {
  return PoolRow::kTickets + 2 * std::max<std::size_t>(1, static_cast<std::size_t>(workers));
}

/// Sends a request and returns the row after it. Another worker's requests change no ticket of this one, so a row that
/// is read later serves as well.
std::vector<float> request(ParameterClient& client, TableHandle table, PoolRequest what,
                           const std::array<std::int64_t, 3>& numbers) {
  std::vector<float> pushed(table.width);
  pushed[0] = static_cast<float>(what);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    require(numbers[i] < kMaxTrainNumber,
            fmt::format("a pool of {} parts is too large: use fewer than {}", numbers[i],
                        kMaxTrainNumber));
    pushed[i + 1] = static_cast<float>(numbers[i]);
  }
  std::vector<float> row(table.width);
  client.push_pull(table, Keys::range(0, 1), pushed, row).wait();
  return row;
}

}  // namespace

PartPool::PartPool(ParameterClient& client, const Options& options)
    : client_(client),
      options_(options),
      table_(client.create_table({.name = options.table,
                                  .keys = 1,
                                  .width = static_cast<std::uint32_t>(width_for(options.workers)),
                                  .update = kPoolUpdate})) {}

void PartPool::open(std::int64_t first, std::int64_t last) {
  (void)request(client_, table_, PoolRequest::Open, {options_.worker, first, last});
}

std::optional<Ticket> PartPool::take() {
  const std::vector<float> row =
      request(client_, table_, PoolRequest::Take, {options_.worker, 0, 0});
  const std::size_t at = PoolRow::kTickets + 2 * position_of(options_.worker);
  if (row[at] == PoolRow::kNone) {
    return std::nullopt;
  }
  return Ticket{.part = static_cast<std::int64_t>(row[at]), .owner = static_cast<int>(row[at + 1])};
}

void PartPool::stop(std::int64_t parts) {
  (void)request(client_, table_, PoolRequest::Stop, {options_.worker, parts, 0});
}

void PartPool::abandon(int worker) {
  (void)request(client_, table_, PoolRequest::Abandon, {worker, 0, 0});
}

std::int64_t PartPool::last() {
  std::vector<float> row(table_.width);
  client_.pull(table_, Keys::range(0, 1), row).wait();
  return static_cast<std::int64_t>(row[PoolRow::kLast]);
}

}  // namespace trireme::ps
