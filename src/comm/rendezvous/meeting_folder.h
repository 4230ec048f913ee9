// Meeting folders: where a user's meeting files (meeting.h) are. Only the user can change what is in
// one, so nobody else can put a file there first. Any thread.
//
//   $XDG_RUNTIME_DIR/trireme   if that directory is this user's alone, with mode 0700
//   /tmp/trireme-UID           else
//   /tmp/trireme-UID-RANDOM    if somebody else made /tmp/trireme-UID first, or can change it
//
// Rank 0 makes the folder. The others look for it: of a random name they know the beginning, and
// believe only a folder that is this user's alone.
#pragma once

#include <string>
#include <vector>

namespace trireme::comm {

struct MeetingFolderOptions {
  /// The value of XDG_RUNTIME_DIR; "" if there is none.
  std::string runtime{};
  /// A directory that all users can write to, with the sticky bit.
  std::string shared = "/tmp";
};

/// Rank 0's side: makes the folder if need be. Throws Error(System) that names the folder in the way,
/// its owner and the fix.
[[nodiscard]] std::string make_meeting_folder(const MeetingFolderOptions& options);

/// The other ranks' side: the folders that there are now, most of the time one.
[[nodiscard]] std::vector<std::string> find_meeting_folders(const MeetingFolderOptions& options);

/// Where rank 0 looks first, for messages.
[[nodiscard]] std::string first_meeting_folder(const MeetingFolderOptions& options);

}  // namespace trireme::comm
