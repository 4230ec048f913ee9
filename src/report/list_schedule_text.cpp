#include "report/list_schedule_text.h"

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {

std::string list_schedules_text(std::string_view model,
                                std::span<const simulate::ListSchedule> schedules,
                                const Terminal& terminal) {
  const simulate::ListSchedule& one = schedules.front();
  std::string text = fmt::format(
      "{}: {} ops, {} on one device, longest path {}. Each op on one device; moving data is "
      "free.\n\n",
      model, one.slots.size(), to_text(one.work), to_text(one.critical_path));
  text += styled(fmt::format("{:>7} {:>12} {:>8} {:>12} {:>12} {:>12}", "devices", "makespan",
                             "speedup", "utilization", "at least", "at most"),
                 Style::Bold, terminal.color) +
          "\n";
  for (const simulate::ListSchedule& schedule : schedules) {
    text +=
        fmt::format("{:>7} {:>12} {:>8.2f} {:>12} {:>12} {:>12}\n", schedule.devices,
                    to_text(schedule.makespan),
                    schedule.makespan.count > 0 ? one.makespan.count / schedule.makespan.count : 1,
                    percent(schedule.utilization()), to_text(schedule.lower_bound()),
                    to_text(schedule.upper_bound()));
  }
  return text;
}

std::string list_schedules_json(std::string_view model,
                                std::span<const simulate::ListSchedule> schedules) {
  Json rows = Json::array();
  for (const simulate::ListSchedule& schedule : schedules) {
    rows.push_back(Json{{"devices", schedule.devices},
                        {"makespan", schedule.makespan.count},
                        {"utilization", schedule.utilization()},
                        {"lower_bound", schedule.lower_bound().count},
                        {"upper_bound", schedule.upper_bound().count}});
  }
  return Json{{"model", model},
              {"ops", schedules.front().slots.size()},
              {"work", schedules.front().work.count},
              {"critical_path", schedules.front().critical_path.count},
              {"schedules", rows}}
             .dump(2) +
         "\n";
}

}  // namespace trireme::report
