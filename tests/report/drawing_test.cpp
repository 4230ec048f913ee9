// Parses the pictures as XML: they must be well formed, and show exactly what the schedule or the
// comparison contains.
#include "report/draw/drawing.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collective/every_schedule.h"
#include "expect_error.h"
#include "report/draw/palette.h"
#include "report/draw/states.h"
#include "report/xml_tree.h"
#include "trireme/collective_cost.h"
#include "trireme/error.h"

namespace trireme::report {
namespace {

const ScheduleDrawing kDrawing{.payload = {1 << 20, 1},
                               .costs = CostModel::uniform({1e-6}, {1e-9}, {1e-10})};

XmlNode draw(const Schedule& schedule) {
  return XmlReader(schedule_svg(schedule, kDrawing)).read();
}

XmlNode draw(Operation operation, Algorithm algorithm, Rank ranks) {
  return draw(build(operation, algorithm, {.ranks = ranks}));
}

/// The rectangles of the cells of one rank in one row, from left to right.
std::vector<const XmlNode*> cells_of(const XmlNode& rank) {
  std::vector<const XmlNode*> cells =
      rank.find_if([](const XmlNode& node) { return node.tag == "rect"; });
  std::ranges::sort(cells, {}, [](const XmlNode* cell) { return std::stod(cell->get("x")); });
  return cells;
}

std::vector<std::string> fills_of(const XmlNode& rank) {
  std::vector<std::string> fills;
  for (const XmlNode* cell : cells_of(rank)) {
    fills.push_back(cell->get("fill"));
  }
  return fills;
}

std::string usage_error(const Schedule& schedule) {
  return error_message(ErrorKind::Usage, [&] { (void)schedule_svg(schedule, kDrawing); });
}

// The whole catalogue: well formed, one arrow per message between the right ranks, one group of
// cells for each rank in each row.
TEST(ScheduleSvg, ShowsEveryMessageAndEveryRank) {
  for_every_schedule(1, 6, [](const Case& c, const Schedule& schedule) {
    SCOPED_TRACE(c.text());
    const XmlNode picture = draw(schedule);
    std::vector<std::pair<std::string, std::string>> drawn;
    for (const XmlNode* message : picture.with_class("message")) {
      drawn.emplace_back(message->get("data-from"), message->get("data-to"));
    }
    std::vector<std::pair<std::string, std::string>> sent;
    for (const Step& step : schedule.steps) {
      for_each_message(step, [&](const Message& m) {
        sent.emplace_back(std::to_string(m.from), std::to_string(m.to));
      });
    }
    EXPECT_EQ(drawn, sent);
    const std::vector<const XmlNode*> rows = picture.with_class("row");
    ASSERT_EQ(rows.size(), schedule.steps.size() + 1);
    for (const XmlNode* row : rows) {
      ASSERT_EQ(std::ssize(row->with_class("rank")), schedule.ranks);
    }
  });
}

// A bold rim for exactly what each rank is promised, and in the end for all of it.
TEST(ScheduleSvg, MarksFinishedBlocks) {
  for_every_schedule(2, 5, [](const Case& c, const Schedule& schedule) {
    SCOPED_TRACE(c.text());
    std::ptrdiff_t promised = 0;
    for (Rank rank = 0; rank < schedule.ranks; ++rank) {
      for (Block block = 0; block < schedule.blocks; ++block) {
        promised += promise(schedule, rank, block).wanted ? 1 : 0;
      }
    }
    const XmlNode picture = draw(schedule);
    const auto bold = [](const XmlNode* row) {
      return std::ssize(row->find_if([](const XmlNode& node) {
        return node.tag == "rect" && node.get("stroke-width") == "2";
      }));
    };
    const std::vector<const XmlNode*> rows = picture.with_class("row");
    EXPECT_EQ(bold(rows.back()), promised);
    EXPECT_LT(bold(rows.front()), promised);
  });
}

TEST(ScheduleSvg, PaintsFinishedAllreduceIdenticallyOnAllRanks) {
  for (const Algorithm algorithm :
       {Algorithm::Ring, Algorithm::RecursiveHalving, Algorithm::Mst, Algorithm::TwoLevel}) {
    const XmlNode picture = draw(Operation::Allreduce, algorithm, 6);
    const std::vector<const XmlNode*> rows = picture.with_class("row");
    const std::vector<const XmlNode*> first = rows.front()->with_class("rank");
    const std::vector<const XmlNode*> last = rows.back()->with_class("rank");
    for (const XmlNode* rank : last) {
      EXPECT_EQ(fills_of(*rank), fills_of(*last.front())) << to_text(algorithm);
    }
    EXPECT_NE(fills_of(*first.front()), fills_of(*last.front()));
  }
}

// The ring's block 0 starts at rank 0 and gains one contribution per step until it reaches rank 3.
TEST(ScheduleSvg, PaintsMoreContributionsDarker) {
  const XmlNode picture = draw(Operation::Allreduce, Algorithm::Ring, 4);
  const std::vector<const XmlNode*> rows = picture.with_class("row");
  int lighter = 3 * 255 + 1;
  for (std::size_t row = 0; row < 4; ++row) {
    const std::string fill = fills_of(*rows[row]->with_class("rank")[row]).front();
    int light = 0;
    for (const std::size_t channel : {1, 3, 5}) {
      light += std::stoi(fill.substr(channel, 2), nullptr, 16);
    }
    EXPECT_LT(light, lighter) << "row " << row;
    lighter = light;
  }
}

TEST(ScheduleSvg, LeavesEmptyCellsHollow) {
  const XmlNode picture = draw(Operation::Allgather, Algorithm::Ring, 4);
  const std::vector<const XmlNode*> ranks = picture.with_class("row").front()->with_class("rank");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<std::string> fills = fills_of(*ranks[rank]);
    for (std::size_t block = 0; block < fills.size(); ++block) {
      EXPECT_EQ(fills[block] == "#ffffff", block != rank) << rank << ' ' << block;
    }
  }
}

// In a reduce-scatter the ring's partial sums are no longer needed once they are forwarded.
TEST(ScheduleSvg, FadesDeadBlocks) {
  const XmlNode picture = draw(Operation::ReduceScatter, Algorithm::Ring, 4);
  const auto faded = [](const XmlNode& node) {
    return node.get("class") == "cell" && !node.get("opacity").empty();
  };
  const std::vector<const XmlNode*> rows = picture.with_class("row");
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(rows[row]->find_if(faded).size(), 4 * row);
  }
}

TEST(ScheduleSvg, DistinguishesCopyFromCombine) {
  const XmlNode picture = draw(Operation::Allreduce, Algorithm::Ring, 4);
  for (const XmlNode* message : picture.with_class("message")) {
    const bool reducing = !message->with_class("combine").empty();
    EXPECT_NE(reducing, !message->with_class("copy").empty());
    EXPECT_EQ(reducing, !message->with_class("plus").empty());
  }
  const std::vector<const XmlNode*> steps = picture.with_class("step");
  EXPECT_EQ(steps.front()->with_class("combine").size(), 4U);
  EXPECT_EQ(steps.back()->with_class("copy").size(), 4U);
}

TEST(ScheduleSvg, ShowsIdleRanksAndStepTimes) {
  const XmlNode picture = draw(Operation::Broadcast, Algorithm::Mst, 9);
  const std::vector<const XmlNode*> steps = picture.with_class("step");
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0]->with_text("idle").size(), 7U);
  EXPECT_EQ(steps[0]->with_text("1 of 9 ranks send").size(), 1U);
  EXPECT_EQ(steps[2]->with_text("4 of 9 ranks send").size(), 1U);
  EXPECT_EQ(steps[3]->with_text("step 4: 1.05 ms").size(), 1U);
  EXPECT_EQ(picture.with_text("root").size(), 1U);
}

// Every mark and label stays inside the picture, for labels including their estimated width.
TEST(ScheduleSvg, StaysWithinBounds) {
  for_every_schedule(2, 5, [](const Case& c, const Schedule& schedule) {
    SCOPED_TRACE(c.text());
    const XmlNode picture = draw(schedule);
    const double width = std::stod(picture.get("width"));
    const double height = std::stod(picture.get("height"));
    for (const XmlNode* node :
         picture.find_if([](const XmlNode& n) { return n.attributes.contains("x"); })) {
      const double x = std::stod(node->get("x"));
      const double half = 3.0 * static_cast<double>(node->text.size());
      const double right = node->tag == "rect"                    ? std::stod(node->get("width"))
                           : node->get("text-anchor") == "middle" ? half
                           : node->get("text-anchor") == "end"    ? 0
                                                                  : 2 * half;
      ASSERT_LE(x + right, width + 1) << node->text;
      ASSERT_LE(std::stod(node->get("y")), height) << node->text;
    }
  });
}

TEST(ScheduleSvg, EscapesName) {
  Schedule schedule = build(Operation::Broadcast, Algorithm::Mst, {.ranks = 2});
  schedule.algorithm = "<b>&\"ring\"\x01\xff";
  const XmlNode picture = draw(schedule);
  EXPECT_EQ(
      picture.with_text("broadcast · <b>&\"ring\"\uFFFD\uFFFD · 2 ranks · root 0 · 1 MiB").size(),
      2U);  // visible text, and one for screen readers
}

TEST(ScheduleSvg, ShowsThatSingleRankHasNothingToDo) {
  for (const Operation operation : all_operations()) {
    const XmlNode picture = draw(operation, algorithms_for(operation).front(), 1);
    EXPECT_EQ(picture.with_text("Nothing to do: the only rank has the result already.").size(), 1U);
    EXPECT_TRUE(picture.with_class("message").empty());
  }
}

TEST(ScheduleSvg, ElidesMiddleOfLongSchedules) {
  const Schedule schedule = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 30});
  const std::string text = schedule_svg(schedule, kDrawing);
  EXPECT_LT(text.size(), 5'000'000U);
  const XmlNode picture = XmlReader(text).read();
  EXPECT_EQ(picture.with_class("step").size(), 16U);
  EXPECT_EQ(picture.with_text("42 more steps: 9 to 50").size(), 1U);
  EXPECT_EQ(picture.with_text("step 51: 35.95 us").size(), 1U);
  const std::vector<const XmlNode*> last = picture.with_class("row").back()->with_class("rank");
  EXPECT_EQ(fills_of(*last.front()), fills_of(*last.back()));
}

TEST(ScheduleSvg, RejectsOversizedSchedules) {
  const auto refuse = [](Operation operation, Algorithm algorithm, const BuildOptions& options) {
    return usage_error(build(operation, algorithm, options));
  };
  EXPECT_NO_THROW(
      (void)schedule_svg(build(Operation::Broadcast, Algorithm::Mst, {.ranks = 64}), kDrawing));
  EXPECT_EQ(refuse(Operation::Broadcast, Algorithm::Mst, {.ranks = 65}),
            "65 ranks are too many for a picture; draw at most 64 (--ranks)");
  (void)refuse(Operation::Allreduce, Algorithm::Ring, {.ranks = 64});
  (void)refuse(Operation::Alltoall, Algorithm::Pairwise, {.ranks = 64});
  (void)refuse(Operation::Broadcast, Algorithm::Chain, {.ranks = 4, .segments = 1 << 16});
}

TEST(RangeText, JoinsThreeNeighborsOrMore) {
  EXPECT_EQ(range_text({}), "");
  EXPECT_EQ(range_text({3}), "3");
  EXPECT_EQ(range_text({0, 1}), "0,1");
  EXPECT_EQ(range_text({0, 1, 2, 3, 5}), "0–3,5");
  EXPECT_EQ(range_text({0, 2, 3, 4}), "0,2–4");
}

double brightness(const std::string& color) {
  double sum = 0;
  const std::vector<double> weights{0.2126, 0.7152, 0.0722};
  for (std::size_t k = 0; k < 3; ++k) {
    const double encoded = std::stoi(color.substr(1 + 2 * k, 2), nullptr, 16) / 255.0;
    sum += weights[k] *
           (encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4));
  }
  return sum;
}

// The contrast that the web accessibility guidelines require for text: 4.5 to 1.
TEST(Palette, IsReadableAndDistinct) {
  for (const std::size_t count : {1, 2, 4, 8, 16}) {
    const Palette palette(count);
    std::set<std::string> fills;
    for (std::size_t k = 0; k < count; ++k) {
      fills.insert(palette.fill(k, 1));
      const double text = brightness("#1b1f24");
      EXPECT_GT((brightness(palette.fill(k, 1)) + 0.05) / (text + 0.05), 4.5)
          << k << " of " << count;
      EXPECT_GT(1.05 / (brightness(palette.ink(k)) + 0.05), 4.5) << k << " of " << count;
    }
    EXPECT_EQ(fills.size(), count);
  }
}

simulate::AlgorithmComparison compare_all(Operation operation, Rank ranks) {
  Selector selector(kDrawing.costs);
  return simulate::compare_algorithms(selector, {.operation = operation, .ranks = ranks},
                                      simulate::size_range(Bytes{8}, Bytes{1 << 30}, 4));
}

TEST(ComparisonSvg, DrawsEveryAlgorithmAndMarksEveryCrossover) {
  for (const Operation operation : all_operations()) {
    const simulate::AlgorithmComparison comparison = compare_all(operation, 8);
    const XmlNode plot = XmlReader(comparison_svg(comparison)).read();
    std::set<std::string> drawn;
    for (const XmlNode* line : plot.with_class("algorithm")) {
      EXPECT_EQ(line->tag, "path");
      drawn.insert(line->get("data-name"));
    }
    std::set<std::string> ranked;
    for (const Choice& choice : comparison.rows.front().ranking) {
      ranked.emplace(to_text(choice.algorithm));
    }
    EXPECT_EQ(drawn, ranked);
    EXPECT_EQ(plot.with_class("algorithm").size(), ranked.size());
    EXPECT_EQ(plot.with_class("bound").size(), 1U);
    const std::vector<const XmlNode*> crossovers = plot.with_class("crossover");
    ASSERT_EQ(crossovers.size(), comparison.crossovers.size()) << to_text(operation);
    for (std::size_t k = 0; k < crossovers.size(); ++k) {
      EXPECT_EQ(crossovers[k]->with_text(to_text(comparison.crossovers[k].bytes)).size(), 1U);
    }
  }
}

// 2052 bytes: where 3α + 3nβ + 3nγ meets 6α + 7/4 nβ + 7/8 nγ.
TEST(ComparisonSvg, LabelsCrossover) {
  const XmlNode plot = XmlReader(comparison_svg(compare_all(Operation::Allreduce, 8))).read();
  EXPECT_EQ(plot.with_text("2.004 KiB").size(), 1U);
  EXPECT_EQ(plot.with_text("recursive-doubling → recursive-halving").size(), 1U);
}

TEST(ComparisonSvg, FadesAlgorithmsThatAreNeverFastest) {
  const XmlNode plot = XmlReader(comparison_svg(compare_all(Operation::Allreduce, 8))).read();
  for (const XmlNode* line : plot.with_class("algorithm")) {
    const bool wins = line->get("data-name") == "recursive-doubling" ||
                      line->get("data-name") == "recursive-halving";
    EXPECT_EQ(line->get("stroke") == "#b4bac4", !wins) << line->get("data-name");
  }
}

TEST(ComparisonSvg, KeepsLabelsApart) {
  const XmlNode plot = XmlReader(comparison_svg(compare_all(Operation::Allreduce, 8))).read();
  std::vector<double> heights;
  for (const XmlNode* line : plot.with_class("name")) {
    heights.push_back(std::stod(line->children.back().get("y")));
  }
  ASSERT_EQ(heights.size(), plot.with_class("algorithm").size() + 1);  // and the lower bound
  std::ranges::sort(heights);
  for (std::size_t k = 1; k < heights.size(); ++k) {
    EXPECT_GT(heights[k] - heights[k - 1], 16.9);
  }
}

// Crossovers that are close together: their labels are stacked instead of overlapping.
TEST(ComparisonSvg, StacksLabelsOfNearbyCrossovers) {
  simulate::AlgorithmComparison comparison = compare_all(Operation::Allreduce, 8);
  comparison.crossovers = {{{2052}, Algorithm::RecursiveDoubling, Algorithm::Ring},
                           {{2100}, Algorithm::Ring, Algorithm::Mst},
                           {{2200}, Algorithm::Mst, Algorithm::RecursiveHalving}};
  const XmlNode plot = XmlReader(comparison_svg(comparison)).read();
  std::set<std::string> heights;
  for (const XmlNode* crossover : plot.with_class("crossover")) {
    heights.insert(crossover->children.front().get("y"));
  }
  EXPECT_EQ(heights.size(), 3U);
}

TEST(ComparisonSvg, DrawsSingleSize) {
  Selector selector(kDrawing.costs);
  const simulate::AlgorithmComparison comparison = simulate::compare_algorithms(
      selector, {.operation = Operation::Broadcast, .ranks = 4}, {Bytes{1000}});
  const XmlNode plot = XmlReader(comparison_svg(comparison)).read();
  EXPECT_EQ(plot.with_class("algorithm").size(), comparison.rows.front().ranking.size());
}

// There is no power of two between these, and no round time either: the axes show the ends.
TEST(ComparisonSvg, LabelsAxesOfNarrowRange) {
  Selector selector(kDrawing.costs);
  const simulate::AlgorithmComparison comparison = simulate::compare_algorithms(
      selector, {.operation = Operation::Barrier, .ranks = 4}, {Bytes{1100}, Bytes{1900}});
  const XmlNode plot = XmlReader(comparison_svg(comparison)).read();
  EXPECT_EQ(plot.with_text("1.074 KiB").size(), 1U);
  EXPECT_EQ(plot.with_text("1.855 KiB").size(), 1U);
}

TEST(ComparisonSvg, RejectsEmptyPlot) {
  EXPECT_THROW((void)comparison_svg(compare_all(Operation::Allreduce, 1)), Error);
  EXPECT_THROW((void)comparison_svg({}), Error);
}

}  // namespace
}  // namespace trireme::report
