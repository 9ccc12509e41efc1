// Which of how many ranks this process is, from the environment that its launcher left.
//
//   PLIMSOLL_TRY(place, detect_process_place(environment()));
//   place.rank;   // 2
//
// Launchers, the innermost first: `plimsoll train --procs` and torchrun (RANK, WORLD_SIZE, ...), mpirun (Open
// MPI: OMPI_COMM_WORLD_*; MPICH and Intel MPI: PMI_*), srun (SLURM_PROCID of a step). One started inside
// another is the usual case and no contradiction: torchrun as a task of srun, mpirun in a batch script.
// Source: manual pages of torchrun 2.13, Open MPI 4.1, MPICH 4, Slurm 23.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "base/result.h"

namespace plimsoll::runtime {

// Where the ranks find each other.
struct FileRendezvous {
  std::string path;
};
struct TcpRendezvous {
  std::string host;
  uint16_t port = 0;
  bool has_server = false;  // the launcher keeps the store: rank 0 starts none
  std::string prefix;       // of the keys: a restarted job finds nothing of its last attempt
};

struct ProcessPlace {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  // on this machine
  std::string launcher;                    // "torchrun"; empty: started by hand, one rank
  std::variant<std::monostate, FileRendezvous, TcpRendezvous> rendezvous;  // none: one rank

  bool is_on_one_machine() const { return local_size == size; }
};

using Environment = std::map<std::string, std::string>;
Environment environment();  // of this process

// Errors: a variable is missing, is no number or out of range, launchers contradict each other.
Result<ProcessPlace> detect_process_place(const Environment& environment);

}  // namespace plimsoll::runtime
