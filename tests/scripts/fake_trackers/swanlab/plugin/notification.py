class LarkCallback:
    def __init__(self, webhook_url, secret):
        self.webhook_url, self.secret = webhook_url, secret
