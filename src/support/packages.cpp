#include "support/packages.h"

#include <mutex>
#include <utility>

namespace nereid {

namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::string> list;
  std::vector<std::string> (*source)() = nullptr;
};

Folders &folders() {
  static auto *instance = new Folders();
  return *instance;
}

} // namespace

void setPackageFolders(std::vector<std::string> list) {
  std::lock_guard lock(folders().mutex);
  folders().list = std::move(list);
}

std::vector<std::string> packageFolders() {
  std::lock_guard lock(folders().mutex);
  return folders().source ? folders().source() : folders().list;
}

void followPackageFolders(std::vector<std::string> (*source)()) {
  std::lock_guard lock(folders().mutex);
  folders().source = source;
}

} // namespace nereid
