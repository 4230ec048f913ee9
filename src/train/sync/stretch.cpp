#include "train/sync/stretch.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "train/clock.h"

namespace trireme::train {

StretchEnd run_stretch(StepBoard& board, const Stretch& stretch, const StretchWork& work) {
  StretchEnd end;
  std::deque<Clock::time_point> completed{Clock::now()};  // when steps were, after the first entry
  const auto publish = [&](const std::vector<StepReport>& reports) {
    if (reports.empty()) {
      return;
    }
    completed.insert(completed.end(), reports.size(), Clock::now());
    while (std::ssize(completed) > kMaxLead + 1) {
      completed.pop_front();
    }
    const double passed =
        std::chrono::duration<double>(completed.back() - completed.front()).count();
    for (const StepReport& report : reports) {
      end.last_report = report;
      end.last_report.step_time = {passed / static_cast<double>(completed.size() - 1)};
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
