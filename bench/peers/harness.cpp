#include "harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/median.h"
#include "page.h"

namespace peers {
namespace {

constexpr float kPoison = -1.0F;

/// Element i of rank r's input: small integers, so that sums are exact in any order.
float element(int rank, std::int64_t i) {
  return static_cast<float>((i * 7 + rank * std::int64_t{13}) % 64);
}

float sum_of_elements(int ranks, std::int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sum += element(rank, i);
  }
  return sum;
}

/// The expected element i of this rank's output.
float expected(const Task& task, std::int64_t i) {
  switch (task.operation) {
    case Operation::Allreduce:
    case Operation::Reduce:
      return sum_of_elements(task.ranks, i);
    case Operation::ReduceScatter:
      return sum_of_elements(task.ranks, task.rank * task.block() + i);
    case Operation::Allgather:
    case Operation::Gather:
      return element(static_cast<int>(i / task.block()), i % task.block());
    case Operation::Broadcast:
      return element(0, i);
    case Operation::Alltoall:
      return element(static_cast<int>(i / task.block()),
                     task.rank * task.block() + i % task.block());
    case Operation::Scatter:
      return element(0, task.rank * task.block() + i);
  }
  return kPoison;
}

bool is_right(const Task& task, const float* output) {
  if (task.operation == Operation::Reduce && !task.is_root()) {
    return true;
  }
  for (std::int64_t i = 0; i < output_elements(task); ++i) {
    if (output[i] != expected(task, i)) {
      return false;
    }
  }
  return true;
}

void fill(const Task& task, float* input, float* output) {
  for (std::int64_t i = 0; i < input_elements(task); ++i) {
    input[i] = element(task.rank, i);
  }
  const bool sends_output = task.operation == Operation::Broadcast && task.is_root();
  for (std::int64_t i = 0; i < output_elements(task); ++i) {
    output[i] = sends_output ? element(0, i) : kPoison;
  }
}

double measure(Page& page, const std::function<void()>& call, int calls) {
  page.start();
  for (int i = 0; i < calls; ++i) {
    call();
  }
  return page.finish() / calls;
}

/// As many calls as the command leaves time for; the same on all ranks.
int calls_for(Page& page, const Command& command, int at_least, double microseconds) {
  const double fitting = command.milliseconds * 1000 / std::max(microseconds, 0.1);
  return page.agree(
      std::clamp(static_cast<int>(std::min(fitting, 1e6)), at_least, command.repeats));
}

std::string measure_all(Page& page, const Command& command, const std::function<void()>& call) {
  double once = measure(page, call, 1);
  if (once < 10'000) {
    for (int i = 0; i < 5; ++i) {
      once = std::min(once, measure(page, call, 1));
    }
  }
  std::vector<double> isolated(calls_for(page, command, std::min(3, command.repeats), once));
  for (double& time : isolated) {
    time = measure(page, call, 1);
  }
  const double typical = trireme::median(isolated);
  const int in_a_row = calls_for(page, command, std::min(2, command.repeats), typical);
  const double back_to_back = measure(page, call, in_a_row);
  return fmt::format("{{\"isolated\": {:.4g}, \"back_to_back\": {:.4g}, \"calls\": {}}}", typical,
                     back_to_back, isolated.size());
}

std::string obey(Page& page, const Command& command, Adapter& adapter) {
  const Task task{.operation = command.operation,
                  .count = elements(command.operation, command.bytes, page.ranks()),
                  .rank = page.rank(),
                  .ranks = page.ranks()};
  const Buffer input = adapter.allocate(input_elements(task));
  const Buffer output = adapter.allocate(output_elements(task));
  const std::function<void()> call = adapter.prepare(task, input.get(), output.get());
  fill(task, input.get(), output.get());
  page.barrier();
  call();
  const int wrong = page.count_wrong(!is_right(task, output.get()));
  if (wrong > 0) {
    return fmt::format("{{\"error\": \"wrong result on {} of {} ranks\"}}", wrong, page.ranks());
  }
  std::string result = measure_all(page, command, call);
  page.barrier();  // no rank frees its buffers while another still uses them
  return result;
}

/// A line of the driver: OPERATION BYTES REPEATS MILLISECONDS. End of input: quit.
Command read_command() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    return {.quit = true};
  }
  std::istringstream words(line);
  std::string operation;
  Command command;
  words >> operation >> command.bytes >> command.repeats >> command.milliseconds;
  const auto parsed = parse_operation(operation);
  if (!words || !parsed) {
    throw std::runtime_error("not a command: " + line);
  }
  command.operation = *parsed;
  return command;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace

Buffer Adapter::allocate(std::int64_t count) {
  constexpr std::size_t kAlign = 4096;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  void* memory = std::aligned_alloc(kAlign, (bytes / kAlign + 1) * kAlign);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return {static_cast<float*>(memory), [](float* p) { std::free(p); }};
}

int serve(const std::string& page_file, int rank, int ranks, Adapter& adapter) {
  Page page(page_file, rank, ranks);
  page.barrier();
  if (rank == 0) {
    say("ready");
  }
  while (true) {
    if (rank == 0) {
      page.publish(read_command());
    }
    const Command command = page.await();
    if (command.quit) {
      return 0;
    }
    const std::string result = obey(page, command, adapter);
    if (rank == 0) {
      say(result);
    }
  }
}

void bind_to_core(int rank) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  int core = -1;
  for (int passed = 0; passed <= rank % CPU_COUNT(&allowed); ++passed) {
    do {
      ++core;
    } while (!CPU_ISSET(core, &allowed));
  }
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(core, &mine);
  sched_setaffinity(0, sizeof mine, &mine);
}

void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace peers
