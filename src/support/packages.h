// Where packages that bring parts of a toolchain may lie: the folders of Python packages, as the
// Python face knows them.
#pragma once
#include <string>
#include <vector>

namespace nereid {

/// Replaces the list; safe at any time.
void setPackageFolders(std::vector<std::string> folders);
std::vector<std::string> packageFolders();
/// From now on the list is what `source` says: another library's, which loaded this one.
void followPackageFolders(std::vector<std::string> (*source)());

} // namespace nereid
