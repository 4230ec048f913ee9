// What every device promises (trireme/stream.h, trireme/device.h), on the CPU and on the isolated device.
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "support/isolated_device.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme {
namespace {

struct DeviceCase {
  const char* name;
  std::unique_ptr<Device> (*make)();
};

class DeviceContract : public ::testing::TestWithParam<DeviceCase> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(
    Devices, DeviceContract,
    ::testing::Values(DeviceCase{"cpu",
                                 [] { return make_cpu_device({.threads = 1, .pinned = false}); }},
                      DeviceCase{"isolated", [] { return make_isolated_device(); }}),
    [](const auto& one) { return std::string(one.param.name); });

constexpr std::int64_t kElements = 1000;
const TensorType kRow{DType::F32, {kElements}};

std::vector<float> numbers(float first) {
  std::vector<float> values(kElements);
  for (float& value : values) {
    value = first++;
  }
  return values;
}

/// y = factor x.
std::unique_ptr<Kernel> scale(Device& device, double factor, DeviceMemory& x, DeviceMemory& y) {
  const auto prepared = device.prepare({.op = &op_named("scale"),
                                        .attributes = {{"factor", factor}},
                                        .inputs = {kRow},
                                        .outputs = {kRow}});
  return prepared->bind({.inputs = {x.data()}, .outputs = {y.data()}, .workspace = x.data()});
}

TEST_P(DeviceContract, MemoryIsZeroInitialized) {
  const auto memory = device_->allocate(size_of(kRow));
  const auto stream = device_->make_stream();
  std::vector<float> read = numbers(1);
  stream->copy_out(std::as_writable_bytes(std::span(read)), memory->data());
  stream->synchronize();
  EXPECT_EQ(read, std::vector<float>(kElements));
}

TEST_P(DeviceContract, StreamRunsInOrder) {
  const auto x = device_->allocate(size_of(kRow));
  const auto stream = device_->make_stream();
  const std::vector<float> written = numbers(1);
  std::vector<float> read(kElements);
  const auto twice = scale(*device_, 2, *x, *x);
  stream->copy_in(x->data(), std::as_bytes(std::span(written)));
  for (int i = 0; i < 10; ++i) {
    twice->enqueue(*stream);
  }
  stream->copy_out(std::as_writable_bytes(std::span(read)), x->data());
  stream->synchronize();
  for (std::size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i], 1024 * written[i]) << i;
  }
}

TEST_P(DeviceContract, CopiesWithinDevice) {
  const auto x = device_->allocate(size_of(kRow));
  const auto y = device_->allocate(size_of(kRow));
  const auto stream = device_->make_stream();
  const std::vector<float> written = numbers(1);
  std::vector<float> read(kElements);
  stream->copy_in(x->data(), std::as_bytes(std::span(written)));
  stream->copy(y->data(), {x->data(), std::as_bytes(std::span(written)).size()});
  stream->copy_out(std::as_writable_bytes(std::span(read)), y->data());
  stream->synchronize();
  EXPECT_EQ(read, written);
}

TEST_P(DeviceContract, EventsOrderStreams) {
  const auto x = device_->allocate(size_of(kRow));
  const auto y = device_->allocate(size_of(kRow));
  const auto first = device_->make_stream();
  const auto second = device_->make_stream();
  const auto to = device_->make_event();
  const auto back = device_->make_event();
  const auto there = scale(*device_, 2, *x, *y);
  const auto here = scale(*device_, 3, *y, *x);
  const std::vector<float> written = numbers(1);
  std::vector<float> read(kElements);
  first->copy_in(x->data(), std::as_bytes(std::span(written)));
  for (int i = 0; i < 3; ++i) {  // the events are recorded again each time
    there->enqueue(*first);
    first->record(*to);
    second->wait(*to);
    here->enqueue(*second);
    second->record(*back);
    first->wait(*back);
  }
  first->copy_out(std::as_writable_bytes(std::span(read)), x->data());
  first->synchronize();
  for (std::size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i], 216 * written[i]) << i;
  }
}

TEST_P(DeviceContract, EventsAreCompleteBeforeRecordingAndAfterTheyAreReached) {
  const auto x = device_->allocate(size_of(kRow));
  const auto stream = device_->make_stream();
  const auto event = device_->make_event();
  EXPECT_TRUE(event->done());
  event->wait();
  const auto kernel = scale(*device_, 2, *x, *x);
  kernel->enqueue(*stream);
  stream->record(*event);
  event->wait();
  EXPECT_TRUE(event->done());
}

TEST_P(DeviceContract, TimedEventsFollowStreamOrder) {
  const auto x = device_->allocate(size_of(kRow));
  const auto stream = device_->make_stream();
  const auto kernel = scale(*device_, 2, *x, *x);
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 20; ++i) {
    events.push_back(device_->make_event({.timed = true}));
    stream->record(*events.back());
    kernel->enqueue(*stream);
  }
  stream->synchronize();
  for (std::size_t i = 1; i < events.size(); ++i) {
    EXPECT_GT(events[i]->since(*events[i - 1]).count, 0) << i;
  }
  EXPECT_GE(events.back()->since(*events.front()).count, events[1]->since(*events.front()).count);
}

TEST_P(DeviceContract, EventsMayBeDestroyedBeforeTheyAreReached) {
  const auto x = device_->allocate(size_of(kRow));
  const auto kernel = scale(*device_, 2, *x, *x);
  const auto stream = device_->make_stream();
  for (int i = 0; i < 50; ++i) {
    kernel->enqueue(*stream);
    stream->record(*device_->make_event({.timed = true}));
  }
  stream->synchronize();
}

TEST_P(DeviceContract, BuffersHaveRequestedAlignment) {
  EXPECT_GE(device_->alignment().count, 64);
  const auto memory = device_->allocate({1});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) %
                static_cast<std::uintptr_t>(device_->alignment().count),
            0U);
}

TEST(IsolatedDevice, HostAccessTraps) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto device = make_isolated_device();
  const auto memory = device->allocate({4096});
  volatile std::byte* address = memory->data();
  EXPECT_EXIT((void)*address, ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(*address = std::byte{1}, ::testing::KilledBySignal(SIGSEGV), "");
}

/// A lookup whose index is out of range fails when it runs, on the stream's thread.
TEST(IsolatedDevice, NextWaitReportsFailure) {
  const auto device = make_isolated_device();
  const TensorType table{DType::F32, {4, 2}};
  const TensorType ids{DType::I32, {3}};
  const TensorType rows{DType::F32, {3, 2}};
  const auto prepared =
      device->prepare({.op = &op_named("embedding"),
                       .attributes = {{"first", std::int64_t{0}}, {"whole", std::int64_t{0}}},
                       .inputs = {table, ids},
                       .outputs = {rows}});
  const auto memory = device->allocate({4096});
  const auto kernel = prepared->bind({.inputs = {memory->data(), memory->data() + 1024},
                                      .outputs = {memory->data() + 2048},
                                      .workspace = memory->data() + 3072});
  const auto stream = device->make_stream();
  const auto other = device->make_stream();
  const auto event = device->make_event();
  const std::vector<std::int32_t> bad{1, 9, 2};
  const std::vector<std::int32_t> good{1, 3, 2};
  stream->copy_in(memory->data() + 1024, std::as_bytes(std::span(bad)));
  kernel->enqueue(*stream);
  stream->record(*event);
  other->wait(*event);
  EXPECT_THROW(event->wait(), Error);
  EXPECT_THROW(other->synchronize(), Error);
  EXPECT_THROW(stream->synchronize(), Error);
  stream->copy_in(memory->data() + 1024, std::as_bytes(std::span(good)));
  kernel->enqueue(*stream);
  stream->synchronize();
}

TEST(IsolatedDevice, LimitsMemory) {
  const auto device = make_isolated_device({.memory = {10000}});
  const auto first = device->allocate({6000});
  EXPECT_EQ(device->free_memory(), Bytes{4000});
  expect_error(ErrorKind::System, "isolated: cannot get 3.907 KiB of memory",
               [&] { (void)device->allocate({4001}); });
}

}  // namespace
}  // namespace trireme
