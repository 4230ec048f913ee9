#include "base/enum_names.h"

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {

void throw_unknown_name(std::string_view kind, std::string_view name,
                        const std::vector<std::string>& known) {
  throw Error(ErrorKind::Usage,
              fmt::format("unknown {} {}; use {}", kind, in_quotes(name), list_words(known, "or")));
}

}  // namespace trireme
