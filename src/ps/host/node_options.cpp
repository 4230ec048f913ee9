#include "ps/host/node_options.h"

#include <utility>

namespace trireme::ps {

comm::Address parse_listen_address(const std::string& text) {
  if (!text.ends_with(":0")) {
    return comm::parse_address(text);
  }
  comm::Address address = comm::parse_address(text.substr(0, text.size() - 1) + "1");
  address.port = 0;
  return address;
}

std::shared_ptr<const UpdateRegistry> or_built_in(std::shared_ptr<const UpdateRegistry> updates) {
  return updates ? std::move(updates) : std::make_shared<const UpdateRegistry>();
}

std::optional<StoredSnapshot> snapshot_to_restore(const SnapshotOptions& options) {
  return options.restore.empty() ? std::nullopt : std::optional(open_snapshot(options.restore));
}

}  // namespace trireme::ps
