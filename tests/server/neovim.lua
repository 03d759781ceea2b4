-- What a person does in Neovim 0.7 or later, as a script: open a file, see its diagnostics, hover, edit, apply an action.
-- It prints a line of JSON.

local command, folder = vim.fn.json_decode(vim.env.AMPCHECK_COMMAND), vim.env.AMPCHECK_FOLDER
local seen = {}

local function wait(what, ready)
  if not vim.wait(60000, ready, 20) then
    io.stderr:write("waited in vain for " .. what .. "\n")
    vim.cmd("cquit")
  end
end

local function diagnostics()
  local found = {}
  for _, one in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, string.format("%s:%d", one.code or one.user_data.lsp.code, one.lnum + 1))
  end
  table.sort(found)
  return found
end

local function shows(code)
  return function()
    return vim.tbl_contains(vim.tbl_map(function(d) return vim.split(d, ":")[1] end, diagnostics()), code)
  end
end

vim.cmd("edit " .. folder .. "/train.py")
local client = vim.lsp.start_client({ name = "ampcheck", cmd = command, root_dir = folder })
vim.lsp.buf_attach_client(0, client)
wait("the first diagnostics", shows("AMP101"))
seen.opened = diagnostics()

vim.api.nvim_win_set_cursor(0, { 25, 10 })
local position = vim.lsp.util.make_position_params()
local answers = vim.lsp.buf_request_sync(0, "textDocument/hover", position, 10000)
seen.hover = answers[client].result.contents.value

-- A line is typed, then a bracket that nothing closes, which is taken back.
vim.api.nvim_buf_set_lines(0, 0, 0, false, { "# a remark" })
wait("the moved diagnostics", function() return vim.tbl_contains(diagnostics(), "AMP101:28") end)
vim.api.nvim_buf_set_lines(0, 1, 1, false, { "x = (" })
wait("the broken text", shows("AMP900"))
seen.broken = diagnostics()
vim.api.nvim_buf_set_lines(0, 1, 2, false, {})
wait("the mended text", function() return not shows("AMP900")() end)

-- The action that ignores the finding is applied.
local range = vim.lsp.util.make_range_params()
range.range = { start = { line = 27, character = 12 }, ["end"] = { line = 27, character = 12 } }
range.context = { diagnostics = {} }
local actions = vim.lsp.buf_request_sync(0, "textDocument/codeAction", range, 10000)[client].result
seen.actions = vim.tbl_map(function(action) return action.title end, actions)
for _, action in ipairs(actions) do
  if action.title:find("^Ignore") then
    vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
  end
end
seen.line = vim.api.nvim_buf_get_lines(0, 27, 28, false)[1]

io.stdout:write(vim.fn.json_encode(seen) .. "\n")
vim.lsp.stop_client(client)
vim.cmd("qall!")
