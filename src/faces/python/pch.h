// The precompiled header of the extension module. A file still includes what it uses.
#pragma once
#include "faces/python/api.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>
