--- Groups of examples for the load-balancing loss of a mixture of experts.

---@class moonring.router_groups
local router_groups = {}

--- Examples per group: per_device_train_batch_size; nil without such a loss.
---@param c moonring.Configuration
---@return integer?
function router_groups.of(c)
  return (c.moe_aux_loss_coef or 0) ~= 0 and c.per_device_train_batch_size or nil
end

return router_groups
