#include "crash/porcupine.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>

#ifndef BRECCIA_LINEARIZE
#define BRECCIA_LINEARIZE ""
#endif

namespace breccia::crash {

bool Porcupine::is_there() { return BRECCIA_LINEARIZE[0] != '\0'; }

Porcupine::Porcupine(const std::string& folder) : folder_("crash_histories/" + folder) {
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
}

void Porcupine::add(const std::string& name, const std::string& lines) const {
  std::ofstream file(folder_ + "/" + name + ".jsonl");
  file << lines;
  file.close();
  EXPECT_TRUE(file.good()) << name;
}

std::string Porcupine::judge() const {
  if (!is_there()) return "";
  const std::string command =
      std::string(BRECCIA_LINEARIZE) + " -jobs 1 -timeout 60s " + folder_ + " 2>&1";
  std::FILE* const says = ::popen(command.c_str(), "r");
  if (says == nullptr) return "it cannot be started";
  std::string said;
  std::array<char, 4096> piece;
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), says)) > 0;) {
    said.append(piece.data(), got);
  }
  return ::pclose(says) == 0 ? "" : command + "\n" + said;
}

}  // namespace breccia::crash
