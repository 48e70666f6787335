--- The groups of examples over which the load-balancing loss of a mixture of experts is computed.

---@class moonring.router_groups
local router_groups = {}

--- The number of examples per group, per_device_train_batch_size; nil if there is no such loss.
---@param c moonring.Configuration
---@return integer?
function router_groups.of(c)
  return (c.moe_aux_loss_coef or 0) ~= 0 and c.per_device_train_batch_size or nil
end

return router_groups
