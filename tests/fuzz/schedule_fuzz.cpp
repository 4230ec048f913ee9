// Feeds arbitrary text to the schedule parser. Accepted schedules must print and parse back
// unchanged, and must be verified and timed without a crash; everything else must be an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/collective_cost.h"
#include "trireme/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;  // NOLINT(google-build-using-namespace): a test of one function
  Schedule schedule;
  try {
    schedule = parse_schedule({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  if (parse_schedule(to_text(schedule)) != schedule) {
    std::abort();
  }
  std::int64_t blocks = 0;
  for (const Step& step : schedule.steps) {
    for (const Transfer& transfer : step.transfers) {
      for (const BlockRun& run : transfer.blocks) {
        blocks += run.count;
      }
    }
    for (const Rotation& rotation : step.rotations) {
      for (const TurningRun& run : rotation.blocks) {
        blocks += run.run_count * rotation.count;
      }
    }
  }
  if (schedule.ranks <= 64 && schedule.blocks <= 4096 && blocks <= 10000) {
    (void)problems(schedule);
    (void)time_schedule(schedule, {1000}, {});
    (void)count_traffic(schedule, {1000});
  }
  return 0;
}
