// `trireme devices`: lists the devices of this machine.
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "report/devices_text.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

report::DeviceList list_devices() {
  report::DeviceList list{.built_with_cuda = has_cuda(), .found = cuda_device_count()};
  for (int number = 0; has_cuda() && number < list.found; ++number) {
    try {
      list.devices.push_back(cuda_facts(number));
    } catch (const Error& error) {
      list.problem = error.what();
    }
  }
  return list;
}

}  // namespace

void add_devices_command(Command& app) {
  auto json = std::make_shared<bool>(false);
  Command* command = app.add_subcommand("devices", "List the devices of this machine");
  command->add_flag("--json", *json, "one JSON object");
  command->callback([json] {
    const report::DeviceList list = list_devices();
    fmt::print("{}", *json ? report::devices_json(list) : report::devices_text(list));
  });
}

}  // namespace trireme::cli
