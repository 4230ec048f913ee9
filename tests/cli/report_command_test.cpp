// `trireme report` and `trireme train --watch`: the page of a real run on four ranks, number by number, and in a browser.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/browser.h"
#include "cli/training_runs.h"
#include "comm/local_request.h"
#include "report/page_reader.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

using report::PageNumber;
using report::PageNumbers;
using report::panels_of;

constexpr std::array kPanels{"overview", "loss",     "throughput", "utilization", "waterfall",
                             "memory",   "timeline", "idle",       "collectives", "predictions",
                             "plan",     "settings", "environment"};
constexpr std::size_t kHeaviest = 3'000'000;

/// The numbers of a run, computed from its files without the library that makes the page.
class RunFiles {
 public:
  explicit RunFiles(const std::string& folder)
      : trace_(parse_trace(read_text(folder + "/trace.json"))),
        facts_(Json::parse(read_text(folder + "/facts.json"))) {
    std::istringstream lines(read_text(folder + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      const Json json = Json::parse(line);
      steps_[std::to_string(json["step"].get<std::int64_t>())] = json;
    }
    for (const TraceArg& detail : trace_.details) {
      if (detail.key == "step") {
        traced_ = std::to_string(std::get<std::int64_t>(detail.value));
      }
    }
  }

  [[nodiscard]] double metric(const std::string& step, const std::string& key) const {
    return steps_.at(step)[key].get<double>();
  }
  /// Of the step with the median time.
  [[nodiscard]] double median_metric(const std::string& key) const {
    std::vector<std::pair<double, double>> values;
    for (const auto& [number, step] : steps_) {
      values.emplace_back(step["seconds"].get<double>(), step[key].get<double>());
    }
    std::ranges::sort(values);
    return values[values.size() / 2].second;
  }
  [[nodiscard]] const Json& facts() const { return facts_; }

  /// A sum over spans on the tracks whose name begins so.
  double sum(const std::string& thread, const std::function<double(const Trace::Span&)>& of) const {
    double all = 0;
    for (const Trace::Span& span : trace_.spans) {
      if (track_of(span).thread.starts_with(thread)) {
        all += of(span);
      }
    }
    return all;
  }
  [[nodiscard]] const Trace::Track& track_of(const Trace::Span& span) const {
    return trace_.tracks[static_cast<std::size_t>(span.track.index)];
  }
  static double argument(const Trace::Span& span, const std::string& key) {
    const auto found = std::ranges::find(span.args, key, &TraceArg::key);
    if (found == span.args.end()) {
      return 0;
    }
    const auto* number = std::get_if<double>(&found->value);
    return number != nullptr ? *number : static_cast<double>(std::get<std::int64_t>(found->value));
  }
  static std::string group_of(const Trace::Span& span) {
    const auto found = std::ranges::find(span.args, "group", &TraceArg::key);
    return found == span.args.end() ? "" : std::get<std::string>(found->value);
  }

  /// The share of the traced step that a rank ("" for the mean of all) spends in a part.
  [[nodiscard]] double share(const std::string& part, const std::string& rank) const {
    const double whole = metric(traced_, "seconds");
    const auto seconds = [&](const std::string& thread, const auto& counts) {
      const double all = sum(thread, [&](const Trace::Span& span) {
        const bool here = rank.empty() || track_of(span).process == rank;
        return here && counts(span) ? std::clamp(whole - span.start.count, 0.0, span.duration.count)
                                    : 0;
      });
      return all / whole / (rank.empty() ? ranks() : 1);
    };
    const auto is_message = [](const Trace::Span& span) {
      return span.name == "send" || span.name == "receive";
    };
    const auto has_products = [](const Trace::Span& span) {
      return argument(span, "products") > 0;
    };
    const auto any = [](const Trace::Span&) { return true; };
    const double kernels = seconds("compute", any);
    const double messages = seconds("waiting", is_message);
    const double waiting = seconds("waiting", any);
    const auto is_attention = [&](const Trace::Span& span) {
      return has_products(span) && span.name.starts_with("attention");
    };
    const auto is_repeated = [&](const Trace::Span& span) {
      return !has_products(span) && span.category == "recompute";
    };
    const auto flops = [&](const auto& counts) {
      return sum("compute", [&](const Trace::Span& span) {
        return counts(span) ? argument(span, "products") : 0;
      });
    };
    const double products = seconds("compute", has_products);
    const double attention = seconds("compute", is_attention);
    const double repeated = seconds("compute", is_repeated);
    const double hfu = metric(traced_, "hfu");
    const double attention_hfu = hfu * flops(is_attention) / flops(any);
    const double mfu = metric(traced_, "mfu");
    const std::map<std::string, double> parts{
        {"peak", 1},
        {"kernels", kernels},
        {"messages", messages},
        {"collectives", waiting - messages},
        {"outside", 1 - kernels - waiting},
        {"others", kernels - products - repeated},
        {"repeated", repeated},
        {"slower", products - attention - hfu + attention_hfu},
        {"attention", attention - attention_hfu},
        {"recomputed", hfu - mfu},
        {"hfu", hfu},
        {"mfu", mfu}};
    return parts.at(part);
  }

  /// The bytes of a category, or all ("total"), at the peak of a rank, or when that is ("time").
  [[nodiscard]] double memory(const std::string& rank, const std::string& key) const {
    std::map<double, std::map<std::string, double>> moments;
    std::map<std::string, double> now;
    for (const Trace::Counter& counter : trace_.counters) {
      if (trace_.tracks[static_cast<std::size_t>(counter.track.index)].process == rank) {
        now[counter.name] = counter.value;
        moments[counter.time.count] = now;
      }
    }
    double peak = -1;
    double found = 0;
    for (const auto& [time, bytes] : moments) {
      double total = 0;
      for (const auto& [name, count] : bytes) {
        total += count;
      }
      if (total > peak) {
        peak = total;
        const auto at = bytes.find(key + " bytes");
        found = key == "total" ? total : key == "time" ? time : at == bytes.end() ? 0 : at->second;
      }
    }
    return found;
  }

  [[nodiscard]] bool has_span(const std::string& rank, const std::string& op,
                              const std::function<bool(const Trace::Span&)>& test) const {
    return std::ranges::any_of(trace_.spans, [&](const Trace::Span& span) {
      return track_of(span).process == rank && span.name == op && test(span);
    });
  }

 private:
  [[nodiscard]] double ranks() const {
    std::set<std::string> names;
    for (const Trace::Track& track : trace_.tracks) {
      names.insert(track.process);
    }
    return static_cast<double>(names.size());
  }

  Trace trace_;
  Json facts_;
  std::map<std::string, Json> steps_;
  std::string traced_;
};

std::string row(const PageNumber& number, const std::string& attribute) {
  const auto found = number.row.find("data-" + attribute);
  return found == number.row.end() ? "" : found->second;
}

/// Of kernels and of exchanges: calls, bytes and time of all ranks.
double total_of(const RunFiles& files, const PageNumber& number) {
  const bool kernels = number.row.contains("data-kernel");
  const std::string op = row(number, kernels ? "kernel" : "op");
  const std::string group = row(number, kernels ? "phase" : "group");
  return files.sum(kernels ? "compute" : "exchanges", [&](const Trace::Span& span) {
    const bool counts =
        span.name == op && (kernels ? span.category : RunFiles::group_of(span)) == group;
    return !counts                   ? 0
           : number.key == "calls"   ? 1
           : number.key == "seconds" ? span.duration.count
                                     : RunFiles::argument(span, number.key);
  });
}

/// Of a span that is listed: there is one with this number.
double listed_of(const RunFiles& files, const PageNumber& number) {
  const bool there =
      files.has_span(row(number, "rank"), row(number, "op"), [&](const Trace::Span& span) {
        return number.value == (number.key == "start"      ? span.start.count
                                : number.key == "duration" ? span.duration.count
                                                           : RunFiles::argument(span, number.key));
      });
  return there ? number.value : std::nan("");
}

double traced_number(const RunFiles& files, const PageNumber& number) {
  if (number.panel == "waterfall" || number.panel == "idle") {
    return files.share(number.key, row(number, "rank"));
  }
  if (number.panel == "memory") {
    return files.memory(row(number, "rank"), number.key);
  }
  return number.row.contains("data-rank") ? listed_of(files, number) : total_of(files, number);
}

/// Of the run's prediction, and what it is compared with.
double compared_number(const RunFiles& files, const std::string& key) {
  const Json& predicted = files.facts()["predicted"];
  if (key == "seconds" || key == "mfu") {
    return files.median_metric(key);
  }
  if (key == "kernels") {
    return files.share(key, "");
  }
  if (key == "waiting") {
    return files.share("messages", "") + files.share("collectives", "");
  }
  const double step = predicted["step_seconds"].get<double>();
  const double peak = files.facts()["peak_flops_per_second"].get<double>();
  return key == "predicted_seconds"   ? step
         : key == "predicted_kernels" ? predicted["compute"].get<double>()
         : key == "predicted_waiting"
             ? predicted["exposed"].get<double>() + predicted["idle"].get<double>()
         : key == "predicted_mfu" ? files.facts()["model_flops"].get<double>() / step / peak
                                  : std::nan("");
}

double expected(const RunFiles& files, const PageNumber& number) {
  if (number.source == "metrics.jsonl") {
    return files.metric(row(number, "step"), number.key);
  }
  return number.source == "trace.json" ? traced_number(files, number)
                                       : compared_number(files, number.key);
}

/// Expects every number of the panel to be that of the run's files, and returns how many there are from each.
std::map<std::string, int> expect_numbers_of(const std::string& page, const std::string& folder) {
  const RunFiles files(folder);
  std::map<std::string, int> checked;
  const PageNumbers numbers(panels_of(page));
  for (const PageNumber& number : numbers.all()) {
    if (number.source == "plan.json") {
      continue;  // coordinates of ranks, which are no measurements
    }
    const double value = expected(files, number);
    EXPECT_NEAR(number.value, value, 1e-12 * std::max(1.0, std::abs(value)))
        << number.panel << " " << number.key << " " << row(number, "rank") << row(number, "step");
    if (number.source == "metrics.jsonl") {
      EXPECT_EQ(number.value, value);
    }
    ++checked[number.panel];
  }
  return checked;
}

class ReportCommand : public TrainRanks {
 protected:
  /// A run on four ranks, once for all tests.
  static const std::string& folder() {
    static const std::string made = [] {
      std::string name = scratch_folder() + "/four";
      const Ran ran = run_program(kSmall +
                                  "-n 4 --mesh data=2,tensor=2 --steps 6 --validate-every 3 "
                                  "--run-folder " +
                                  name);
      EXPECT_EQ(ran.exit_code, 0) << ran.err;
      return name;
    }();
    return made;
  }
  static std::string page_of(const std::string& runs) {
    const std::string path = scratch_folder() + "/page.html";
    const Ran ran = run_program(fmt::format("report {} -o {}", runs, path));
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return read_text(path);
  }
};

TEST_F(ReportCommand, NumbersMatchRunFiles) {
  const std::string page = page_of(folder());
  EXPECT_LT(page.size(), kHeaviest);
  const std::map<std::string, int> checked = expect_numbers_of(page, folder());
  for (const char* panel : {"overview", "loss", "throughput", "utilization", "waterfall", "memory",
                            "timeline", "idle", "collectives"}) {
    EXPECT_TRUE(checked.contains(panel)) << panel;
  }
  // The last loss, in the words of the page.
  const PageNumbers numbers(panels_of(page));
  EXPECT_EQ(numbers.all().front().text, fmt::format("{:.4f}", numbers.all().front().value));
  EXPECT_NE(page.find("4 ranks: data=2,tensor=2"), std::string::npos);
  EXPECT_NE(page.find("Step 6 of 6, complete."), std::string::npos);
}

TEST_F(ReportCommand, ResumedRunIsReportedAsWhole) {
  const std::string run = new_run();
  ASSERT_EQ(run_program(kSmall + "--steps 3 --run-folder " + run).exit_code, 0);
  ASSERT_EQ(run_program("train --steps 7 --resume " + run).exit_code, 0);
  const std::string page = page_of(run);
  (void)expect_numbers_of(page, run);
  EXPECT_NE(page.find("Step 7 of 7, complete."), std::string::npos);
}

/// A pipeline: its ranks wait for messages.
TEST_F(ReportCommand, ComparesPipelineWithAnotherRun) {
  const std::string run = new_run();
  ASSERT_EQ(run_program(kSmall + "--mesh pipe=2 --microbatches 2 --steps 3 --run-folder " + run)
                .exit_code,
            0);
  const std::string alone = page_of(run);
  (void)expect_numbers_of(alone, run);
  EXPECT_NE(alone.find("2 pipeline stages, 2 micro-batches by 1f1b"), std::string::npos);
  const std::string page = page_of(run + " " + folder());
  EXPECT_EQ(panels_of(page).find_if([](const auto& node) { return node.tag == "section"; }).size(),
            kPanels.size());
  EXPECT_NE(page.find("mesh (differs)"), std::string::npos);
}

TEST_F(ReportCommand, RejectsFoldersWithoutRun) {
  const Ran ran = run_program("report " + folder_.path());
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.err.find("is not the folder of a run"), std::string::npos) << ran.err;
}

TEST_F(ReportCommand, ShowsRunInProgress) {
  const std::string run = new_run();
  const std::unique_ptr<Started> started = start(run, "-n 2 --mesh data=2 --watch 0");
  const std::string errors = read_text(folder_ / "err");
  const std::string words = "watch the run at http://127.0.0.1:";
  ASSERT_NE(errors.find(words), std::string::npos) << errors;
  const int port = std::stoi(errors.substr(errors.find(words) + words.size()));
  const std::string answer = get(port);
  ASSERT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer.substr(0, 200);
  const std::string page = answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_EQ(panels_of(page).find_if([](const auto& node) { return node.tag == "section"; }).size(),
            kPanels.size());
  (void)expect_numbers_of(page, run);
  if (has_browser()) {
    const Opened opened =
        open_page(fmt::format("http://127.0.0.1:{}/", port), {.milliseconds = 8000});
    EXPECT_NE(opened.document.find("Live: updated"), std::string::npos) << opened.log;
    EXPECT_FALSE(opened.has_console_messages()) << opened.log;
  }
  const Ran second = run_program(fmt::format("{} --steps 1 --watch {}", kSmall, port));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_NE(second.err.find(fmt::format("--watch: port {} of 127.0.0.1 is in use", port)),
            std::string::npos)
      << second.err;
}

/// What a reader would see, written into the title by a script at the end of the page.
constexpr std::string_view kProbe = R"(<script>
const panels=[...document.querySelectorAll('section.panel')];
const shown=panels.filter(p=>p.getBoundingClientRect().height>60&&p.getBoundingClientRect().width>200);
const pictures=[...document.querySelectorAll('main svg[role=img]')];
const drawn=pictures.filter(p=>p.getBBox().width>100&&p.getBBox().height>50);
const wide=document.documentElement.scrollWidth-document.documentElement.clientWidth;
const paper=getComputedStyle(document.body).backgroundColor;
document.title=`panels ${shown.length}, pictures ${drawn.length} of ${pictures.length}, `+
  `overflow ${wide}, paper ${paper}`;
</script></body>)";

std::string title_of(const std::string& document) {
  const std::size_t begin = document.find("<title>") + std::string("<title>").size();
  return document.substr(begin, document.find("</title>") - begin);
}

TEST_F(ReportCommand, OpensInBrowserWithoutErrors) {
  if (!has_browser()) {
    GTEST_SKIP() << "chromium is not installed; apt-get install chromium";
  }
  std::string page = page_of(folder());
  page.replace(page.find("</body>"), std::string("</body>").size(), kProbe);
  const std::string path = "file://" + folder_.file("probe.html", page);
  const std::string all = "panels 13, pictures 8 of 8, overflow 0, paper ";
  const Opened desktop = open_page(path);
  EXPECT_EQ(title_of(desktop.document), all + "rgb(247, 246, 242)") << desktop.log;
  const Opened phone = open_page(path, {.width = 400, .dark = true});
  EXPECT_EQ(title_of(phone.document), all + "rgb(17, 23, 28)") << phone.log;
  EXPECT_FALSE(desktop.has_console_messages() || phone.has_console_messages()) << desktop.log;
  // What a console error looks like.
  const std::string broken = folder_.file("broken.html", "<script>undefined.x</script>");
  EXPECT_TRUE(open_page("file://" + broken).has_console_messages());
}

}  // namespace
}  // namespace trireme
