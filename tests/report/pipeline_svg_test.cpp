#include "report/draw/pipeline_svg.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/xml_tree.h"

namespace trireme::report {
namespace {

// Every task is in the picture, in its rank's lane, with the right length.
TEST(PipelineSvg, ShowsEveryTask) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    const simulate::PipelineReport report =
        simulate::make_pipeline_report(schedule.make({.ranks = 4, .microbatches = 5}), {});
    const XmlNode picture = XmlReader(pipeline_svg(report)).read();
    const std::vector<const XmlNode*> lanes = picture.with_class("rank");
    ASSERT_EQ(lanes.size(), 4U);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      std::vector<std::string> drawn;
      for (const XmlNode* task : lanes[rank]->with_class("task")) {
        drawn.push_back(task->get("data-task"));
      }
      std::vector<std::string> wanted;
      for (const PipelineTask& task : report.table.tasks[rank]) {
        wanted.push_back(to_text(task));
      }
      std::ranges::sort(drawn);
      std::ranges::sort(wanted);
      EXPECT_EQ(drawn, wanted) << schedule.name;
    }
  }
}

TEST(PipelineSvg, ComparisonUsesOneScale) {
  const simulate::PipelineComparison comparison =
      simulate::compare_pipelines({.ranks = 4, .microbatches = 6}, {});
  const XmlNode picture = XmlReader(pipelines_svg(comparison)).read();
  EXPECT_EQ(picture.with_class("rank").size(), 4U * pipeline_schedules().size());
  EXPECT_EQ(picture.with_text("zb-h1").size(), 1U);
  // The first forward of stage 0 has the same width in each panel with one stage per rank.
  std::set<std::string> widths;
  for (const XmlNode* task : picture.with_class("task")) {
    if (task->get("data-task") == "F0.0") {
      widths.insert(task->children.at(1).get("width"));
    }
  }
  EXPECT_EQ(widths.size(), 2U);  // whole stages, and halves
}

}  // namespace
}  // namespace trireme::report
