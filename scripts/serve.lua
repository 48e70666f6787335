--- moonring serve MODEL|ADAPTER|CONFIG.yaml [key=value...]: a service that trains and samples, for
-- clients of the Tinker API and of OpenAI's completions. It stays in the foreground, prints the
-- address and the key for clients, and ends with Ctrl-C. output_dir (default runs/serve) has
-- everything that outlives it: started again with the same arguments, it knows its sessions, models
-- and saved weights. Keys beyond those of train:
--   port=8000          0: any free port
--   host=127.0.0.1     address to listen on
--   api_key=tml-...    absent: one is made, printed, and kept in output_dir/serve/api_key
--   base_models=NAME=FOLDER,...  further models, and names for them
-- Keys of train act where they concern the model, its precision, the ranks and the chat template:
-- sequence_parallel_size=2 spreads each sequence over two ranks, and clients see no difference.
local moonring = require "moonring"

local service = moonring.serve.open(moonring.serve.settings(arg))
service:announce()
for jobs in service:jobs() do -- the same jobs on every rank
  service:run(jobs)           -- runs them on all ranks and answers their clients
end
service:close()
