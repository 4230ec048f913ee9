// Feeds arbitrary text to the parser of pipeline tables. Accepted tables must print and parse back
// unchanged, and must be verified and, if valid, timed without a crash; everything else must be an
// Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/error.h"
#include "trireme/pipeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;  // NOLINT(google-build-using-namespace): a test of one function
  PipelineTable table;
  try {
    table = parse_pipeline({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  if (parse_pipeline(to_text(table)) != table) {
    std::abort();
  }
  if (table.stages * static_cast<std::int64_t>(table.microbatches) <= 10000 &&
      problems(table).empty()) {
    (void)time_pipeline(table, PipelineDurations{});
    (void)weight_versions(table);
    (void)live_versions(table);
    (void)activation_peaks(table);
    (void)count_messages(table);
  }
  return 0;
}
