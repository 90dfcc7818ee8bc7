// The search runs in a worker, which browsers refuse to pages that are opened as files: there it runs in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = `<script>postMessage = data => parent.postMessage(data, "*")</script><script src="${url}"></script>`
      this.ready = new Promise(resolve => frame.addEventListener("load", () => resolve(frame.contentWindow)))
      addEventListener("message", ({source, data}) => {
        if (source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", {data}))
      })
      document.body.append(frame)
    }
    postMessage(data) {
      this.ready.then(window => window.dispatchEvent(new window.MessageEvent("message", {data})))
    }
  }
