// The process's settings with some variables changed, for the length of a scope.
#pragma once
#include "support/diagnostics.h"
#include "support/settings.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

class Environment {
public:
  explicit Environment(std::vector<std::pair<std::string, std::string>> wanted) {
    for (auto &[name, value] : wanted) {
      const char *now = getenv(name.c_str());
      former.push_back({name, now ? std::string(now) : "", now != nullptr});
      setenv(name.c_str(), value.c_str(), 1);
    }
    reload();
  }
  ~Environment() {
    for (Former &one : former)
      if (one.wasSet)
        setenv(one.name.c_str(), one.value.c_str(), 1);
      else
        unsetenv(one.name.c_str());
    reload();
  }

private:
  struct Former {
    std::string name, value;
    bool wasSet;
  };
  static void reload() {
    nereid::DiagnosticEngine diagnostics;
    nereid::Settings::reload(diagnostics);
  }
  std::vector<Former> former;
};
