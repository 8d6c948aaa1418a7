-- SPDX-License-Identifier: Apache-2.0
-- For Lmod: module use PREFIX/share/deep-optimizer-states/modulefiles; module load deep-optimizer-states
help([[Trains GPT-style language models whose optimizer state does not fit into GPU memory.
train_gpt --help, or man train_gpt, is the beginning; the pages lie in share/doc of the prefix.]])
whatis("Name: deep-optimizer-states")
whatis("Version: " .. myModuleVersion())

-- The prefix is where this file lies: it may have been moved.
local prefix = myFileName():match("^(.*)/share/deep%-optimizer%-states/modulefiles/")
if prefix == nil then
  LmodError("deep-optimizer-states: " .. myFileName() .. " does not lie in its prefix: name its own folder to module use")
end

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man") .. ":")
-- Where batch scripts and site files of Slurm are.
setenv("DOS_ROOT", pathJoin(prefix, "share/deep-optimizer-states"))
