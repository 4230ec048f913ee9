#include "train/sync/stretch.h"

#include <algorithm>

#include "train/clock.h"

namespace trireme::train {

StretchEnd run_stretch(StepBoard& board, const Stretch& stretch, const StretchWork& work) {
  StretchEnd end;
  Clock::time_point last_publish = Clock::now();
  const auto publish = [&](const std::vector<StepReport>& reports) {
    if (reports.empty()) {
      return;
    }
    const Seconds passed = since(last_publish);
    last_publish = Clock::now();
    for (const StepReport& report : reports) {
      end.last_report = report;
      end.last_report.step_time = {passed.count / static_cast<double>(reports.size())};
      end.unpublished = report.step == stretch.last;
      if (!end.unpublished) {
        work.publish(end.last_report);
      }
    }
  };
  while (const std::optional<BatchShare> share = board.take()) {
    board.post(work.run_share(*share));
    publish(board.completed());
  }
  publish(board.finish());
  end.last = board.last();
  end.stopped = board.stopped();
  return end;
}

std::int64_t next_meeting(std::int64_t step, std::int64_t last,
                          std::initializer_list<std::int64_t> intervals) {
  for (const std::int64_t every : intervals) {
    if (every > 0) {
      last = std::min(last, (step / every + 1) * every);
    }
  }
  return last;
}

}  // namespace trireme::train
