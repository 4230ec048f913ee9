#include "train/run/run_folder.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

Seconds wall_time() {
  return {
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

/// "FOLDER/events.out.tfevents.SECONDS.trireme.NUMBER": TensorBoard reads the files of a run in name order.
std::string free_event_file(const std::string& folder, Seconds now) {
  for (int number = 0;; ++number) {
    std::string path = fmt::format("{}/events.out.tfevents.{:.0f}.trireme.{:03}", folder,
                                   std::floor(now.count), number);
    if (!fs::exists(path)) {
      return path;
    }
  }
}

void require_created(const std::string& folder, const std::error_code& error) {
  if (error) {
    throw Error(ErrorKind::Usage,
                fmt::format("cannot create the folder '{}': {}; choose another with --run-folder",
                            folder, error.message()));
  }
}

}  // namespace

std::string new_run_folder(const std::string& model) {
  make_run_folder("runs");
  for (int number = 1;; ++number) {
    std::string folder = fmt::format("runs/{}-{:03}", model, number);
    std::error_code error;
    if (fs::create_directory(folder, error)) {
      return folder;
    }
    require_created(folder, error);
  }
}

void make_run_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require_created(folder, error);
}

StepRecord::StepRecord(const std::string& folder, std::int64_t step, bool tensorboard)
    : metrics_(folder + "/metrics.jsonl", step) {
  if (tensorboard) {
    const Seconds now = wall_time();
    events_.emplace(free_event_file(folder, now), now);
  }
}

void StepRecord::add(const RunFacts& facts, const StepReport& report) {
  metrics_.add(to_json(facts, report));
  if (events_) {
    add_event(facts, report);
  }
}

// TensorBoard groups tags by the part before the slash.
void StepRecord::add_event(const RunFacts& facts, const StepReport& m) {
  const std::string speed = fmt::format("speed/{}_per_second", facts.unit);
  std::vector<EventScalar> scalars{
      {"loss/training", m.loss},
      {"optimizer/learning_rate", m.rate},
      {"optimizer/gradient_norm", m.gradient_norm},
      {speed, static_cast<double>(facts.units_per_step) / m.step_time.count},
      {"speed/mfu", mfu(facts, m.step_time)},
      {"speed/hfu", hfu(facts, m.step_time)},
      {"memory/peak_bytes", static_cast<double>(facts.memory.count)}};
  if (m.loss_scale) {
    scalars.push_back({"optimizer/loss_scale", *m.loss_scale});
  }
  if (m.sync) {
    scalars.push_back({"sync/staleness", static_cast<double>(m.sync->staleness)});
    scalars.push_back({"sync/spread", m.sync->spread});
    if (m.sync->clocks) {
      scalars.push_back({"sync/slowest_clock", static_cast<double>(m.sync->clocks->slowest)});
      scalars.push_back({"sync/fastest_clock", static_cast<double>(m.sync->clocks->fastest)});
    }
  }
  if (m.validation) {
    scalars.push_back({"loss/validation", *m.validation});
  }
  events_->add(m.step, wall_time(), scalars);
}

}  // namespace trireme::train
